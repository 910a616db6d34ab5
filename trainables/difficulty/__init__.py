"""How difficult each training query is: the scores of Penha and Hauff (2020), computed once and cached."""
