"""Architectures of encoders, by the type in a model's config.json: where transformers keeps the parts of the model.

The layers of most architectures run packed: the texts of a batch one after another, without padding. An architecture
with attention that depends on the place of a text in a padded batch runs padded, in groups of texts of similar length.
The module does not load torch.
"""

from dataclasses import dataclass, replace
from typing import Literal

from trainables.utils.errors import UserError
from trainables.utils.registry import Entry, Registry


@dataclass(frozen=True)
class Architecture:
    """Places of the parts of an encoder; a path is a dotted path of attributes that starts at the model.

    The embeddings are the attribute `embeddings` of the model.

    Attributes:
        layers: path of the layers.
        projections: attributes of a packed attention module that multiply the same input: queries, keys, values. If
            empty, the module has one for all of them.
        shares_layers: True if the path has groups of layers and each group is used several times (ALBERT).
        word_embeddings: path of the word embeddings.
        projection: path of the layer between the embeddings and the first layer. If None, there is none.
        final_norm: path of the normalisation after the last layer. If None, there is none.
        rotary: path of the rotary position embedding, which every layer gets. If None, there is none.
        pooler: path of the dense layer of the [CLS] pooling. If None, the model has none.
        classifier: names of the dense layer and of the output layer of a ranker in the model of transformers for
            sequence classification. If None, the head of that model is not a dense layer, tanh and an output layer.
        classifier_activation: setting of the model that makes tanh the function between these two layers. If None, it
            is always tanh.
        positions_follow_padding: True if the first position is the index of the padding token plus 1.
        layer_count: key of the number of layers in config.json.
        dropouts: settings of the model that must not be 0, since it has no dropout at these places otherwise.
        padding_mask: mask that the encoder takes if it runs padded: "boolean" is 1 at tokens and 0 at padding,
            "additive" is added to the attention scores. If None, the layers run packed.
        before_output: path, in a packed layer, of the module from which on a token depends on no other token. If only
            some tokens are needed, the last layer computes the rest for them alone. If None, for all.
        first_layer_part: attribute of a padded encoder that belongs to its first layer. If None, there is none.
        supports_autocast: False if the layers of transformers fail in bf16; they then run in fp32.
    """

    layers: str = "encoder.layer"
    projections: tuple[str, ...] = ("query", "key", "value")
    shares_layers: bool = False
    word_embeddings: str = "embeddings.word_embeddings"
    projection: str | None = None
    final_norm: str | None = None
    rotary: str | None = None
    pooler: str | None = None
    classifier: tuple[str, str] | None = None
    classifier_activation: str | None = None
    positions_follow_padding: bool = False
    layer_count: str = "num_hidden_layers"
    dropouts: tuple[str, ...] = ()
    padding_mask: Literal["boolean", "additive"] | None = None
    before_output: str | None = None
    first_layer_part: str | None = None
    supports_autocast: bool = True


_ROBERTA = Architecture(
    pooler="pooler.dense",
    classifier=("classifier.dense", "classifier.out_proj"),
    positions_follow_padding=True,
    before_output="attention.output",
)
_DEBERTA = Architecture(
    classifier=("pooler.dense", "classifier"), classifier_activation="pooler_hidden_act", padding_mask="boolean"
)

ARCHITECTURES: Registry[Architecture] = Registry(
    Entry(
        "bert",
        Architecture(
            pooler="pooler.dense", classifier=("bert.pooler.dense", "classifier"), before_output="attention.output"
        ),
        "BERT, MiniLM and the like, packed",
        "Devlin et al. (2019)",
    ),
    Entry("roberta", _ROBERTA, "RoBERTa, packed", "Liu et al. (2019)"),
    Entry("xlm-roberta", _ROBERTA, "XLM-R for 100 languages, packed", "Conneau et al. (2020)"),
    Entry("camembert", _ROBERTA, "CamemBERT for French, packed", "Martin et al. (2020)"),
    Entry(
        "electra",
        Architecture(projection="embeddings_project", before_output="attention.output"),
        "ELECTRA, packed; a [CLS] pooler is drawn with the seed",
        "Clark et al. (2020)",
    ),
    Entry(
        "distilbert",
        Architecture(
            layers="transformer.layer",
            projections=("q_lin", "k_lin", "v_lin"),
            layer_count="n_layers",
            before_output="sa_layer_norm",
        ),
        "DistilBERT, packed; no token types, a [CLS] pooler is drawn with the seed",
        "Sanh et al. (2019)",
    ),
    Entry(
        "albert",
        Architecture(
            layers="encoder.albert_layer_groups",
            shares_layers=True,
            projection="encoder.embedding_hidden_mapping_in",
            pooler="pooler",
            classifier=("albert.pooler", "classifier"),
        ),
        "ALBERT, packed; its layers share weights, so none can be frozen or fresh",
        "Lan et al. (2020)",
    ),
    Entry(
        "modernbert",
        Architecture(
            layers="layers",
            projections=(),
            word_embeddings="embeddings.tok_embeddings",
            final_norm="final_norm",
            rotary="rotary_emb",
            dropouts=("attention_dropout",),
        ),
        "ModernBERT, packed; no token types, a [CLS] pooler is drawn with the seed",
        "Warner et al. (2024)",
    ),
    Entry(
        "deberta-v2",
        replace(_DEBERTA, first_layer_part="conv"),
        "DeBERTa of versions 2 and 3, padded; a [CLS] pooler is drawn with the seed",
        "He et al. (2021)",
    ),
    Entry(
        "deberta",
        replace(_DEBERTA, supports_autocast=False),
        "DeBERTa of version 1, padded, always in fp32; a [CLS] pooler is drawn with the seed",
        "He et al. (2020)",
    ),
    Entry(
        "mpnet",
        replace(_ROBERTA, padding_mask="additive", before_output=None),
        "MPNet, padded; no token types",
        "Song et al. (2020)",
    ),
)
"""Type of a model (`model_type` in config.json) -> places of its parts."""


def get_architecture(model_type: str | None) -> Architecture:
    """Return the architecture of a type of models.

    Raises:
        UserError: if the type is not one of the known types.

    Example:
        >>> get_architecture("distilbert").layers
        'transformer.layer'
    """
    if model_type is None or model_type not in ARCHITECTURES:
        expected = f"an encoder of one of the types {ARCHITECTURES.format_names()}"
        raise UserError("model.name", f"a model of type {model_type!r}", expected)
    return ARCHITECTURES[model_type]


def require_separate_layers(model_type: str, key: str, n_layers: int) -> None:
    """Raise an error if some layers are to be treated differently from others with which they share their weights.

    Raises:
        UserError: if the layers of the type share their weights.
    """
    if get_architecture(model_type).shares_layers:
        raise UserError(key, n_layers, f"0, since the layers of the type {model_type} share their weights")
