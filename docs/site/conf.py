"""Sphinx configuration of the web pages; `make site` runs
tools/site/prepare.py, which writes their source, and then Sphinx."""

from pathlib import Path

from docutils.nodes import SkipNode, math_block

from tools.site.prepare import glossary_words
from tools.site.repository import BASE_URL

project = "possm-lite"
author = "the possm-lite authors"
copyright = "the possm-lite authors. Text and figures: CC-BY-4.0; code: MIT"
html_title = "possm-lite"

extensions = ["myst_nb", "sphinx_design"]
nb_execution_mode = "off"  # the committed outputs are shown
nb_ipywidgets_js = {}  # by default, a script from the network, which would do nothing without a kernel
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "fieldlist"]
myst_heading_anchors = 3
suppress_warnings = ["mystnb.unknown_mime_type"]

add_module_names = False
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True

html_theme = "sphinx_book_theme"
html_static_path = ["_static"]
html_context = {"default_mode": "auto", "glossary_words": glossary_words()}
html_favicon = "_static/favicon.svg"
html_baseurl = BASE_URL
templates_path = ["_templates"]
html_math_renderer = "katex"
html_extra_path = ["../_build/source/_extra"]
html_css_files = ["course.css"]
html_search_scorer = str(Path(__file__).parent / "scorer.js")
html_sidebars = {"**": ["navbar-logo.html", "search-button-field.html", "live-link.html", "sbt-sidebar-nav.html"]}
html_theme_options = {
    "show_navbar_depth": 1,
    "navbar_persistent": [],  # the search of the side bar is enough
    "use_download_button": False,
    "use_fullscreen_button": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_show_sourcelink = False
html_copy_source = False


def formula(writer, node):
    """A formula as its LaTeX, which formulas.js gives to KaTeX; layout.html loads both where a page has one."""
    tag = "div" if isinstance(node, math_block) else "span"
    writer.body.append(f'<{tag} class="math">{writer.encode(node.astext())}</{tag}>')
    raise SkipNode


def mark_chinese(app, page, template, context, doctree):
    """The body of a page in Chinese says so, for its glyphs."""
    if page.endswith(".zh"):
        context["body"] = f'<div lang="zh">{context["body"]}</div>'


def setup(app):
    app.add_html_math_renderer("katex", (formula, None), (formula, None))
    app.connect("html-page-context", mark_chinese)
