"""The digits of scikit-learn, a small convolutional network with batch normalisation, training and testing."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 10))


def data(partition: int, partitions: int) -> DataLoader:
    """The images of a partition: every n-th one of the first 1,500."""
    images, labels = everything()
    own = slice(partition, 1500, partitions)
    return DataLoader(TensorDataset(images[own], labels[own]), batch_size=32, shuffle=True)


def everything() -> tuple[torch.Tensor, torch.Tensor]:
    digits = load_digits()
    return torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16, torch.tensor(digits.target)


def train(model: nn.Module, loader: DataLoader, epochs: int, lr: float) -> float:
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9), []
    model.train()
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return sum(losses) / len(losses)


def test(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> tuple[float, float]:
    model.eval()
    with torch.no_grad():
        outputs = model(images)
    correct = (outputs.argmax(dim=1) == labels).float().mean()
    return functional.cross_entropy(outputs, labels).item(), correct.item()
