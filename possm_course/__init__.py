"""What only the course uses: checks of exercises, diagrams and sliders, and what each chapter shows.

Raises:
    ImportError: the packages of the extra `lab` are not installed.
"""

from importlib.util import find_spec

for _name in ("ipywidgets", "joblib"):
    if find_spec(_name) is None:
        raise ImportError(f'possm_course needs {_name}: in the folder of the project, pip install -e ".[lab]"')
