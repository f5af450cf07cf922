"""`python -m lamella` is `lamella`."""

from lamella.cli import main

if __name__ == "__main__":
    main()
