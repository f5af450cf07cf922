"""The conversations of `bench/traces`: what people and models say in them, and the bulk text around it."""
