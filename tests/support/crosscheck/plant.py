"""False claims on purpose: which of them the cross-check finds, and after how many instances."""


def report(folder, tracks, seconds, instances):
    return ""
