"""Tools of development: notebooks executed and timed, the site and the slides built, the environment checked."""
