"""Learning tasks. Importing this package does not import torch: the launcher checks and partitions without it."""

from testbed.common.plugins import Catalogue
from testbed.learning.tasks.digits import Digits
from testbed.learning.tasks.flower_project import FlowerApp
from testbed.learning.tasks.image_tasks import Cifar10, FashionMnist, Femnist, Mnist
from testbed.learning.tasks.linear_tasks import Regression, Svm
from testbed.learning.tasks.own_data_tasks import Csv, HuggingFace, ImageFolder, Npz
from testbed.learning.tasks.recipe import Recipe
from testbed.learning.tasks.scikit_learn import ScikitLearn
from testbed.learning.tasks.shakespeare_task import Shakespeare
from testbed.learning.tasks.synthetic import Synthetic
from testbed.learning.tasks.task_entry import TaskEntry

TASKS: Catalogue[TaskEntry] = Catalogue(
    Recipe,
    {
        "digits": Digits,
        "mnist": Mnist,
        "fashion_mnist": FashionMnist,
        "cifar10": Cifar10,
        "femnist": Femnist,
        "shakespeare": Shakespeare,
        "synthetic": Synthetic,
        "regression": Regression,
        "svm": Svm,
        "sklearn": ScikitLearn,
        "csv": Csv,
        "npz": Npz,
        "images": ImageFolder,
        "huggingface": HuggingFace,
        "flower": FlowerApp,
    },
)
"""Name in a profile → class. A user's own task is a Recipe."""
