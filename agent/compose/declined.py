"""Exceptions for a reference that cannot be composed."""


class Declined(Exception):
    """A feature that the composer does not support, as a clause that ends a sentence."""


class ProductsAlone(Declined):
    """A reference of products and convolutions alone. Nothing is left to compose if these stay torch's."""

    def __init__(self) -> None:
        super().__init__("it is matrix products and convolutions alone, which stay torch's")
