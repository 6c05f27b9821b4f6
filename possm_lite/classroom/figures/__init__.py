"""Interactive figures, one module each: functions that draw them, for `widgets.explore`."""
