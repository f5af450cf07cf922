"""The routes of the API by subject, each with its bodies and objects."""
