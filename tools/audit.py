"""Compares requirements/main.lock with the known advisories by pip-audit; exits with 1 if a version has one."""

import json
import subprocess
import sys

command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "-r", "requirements/main.lock"]
command += ["--progress-spinner", "off", "--timeout", "20", "--format", "json", *sys.argv[1:]]
report = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
try:
    packages = json.loads(report)["dependencies"]
except ValueError:  # pip-audit is not installed, or the advisory service did not respond
    packages = []
known = [package for package in packages if "skip_reason" not in package]  # to the service
advisories = [(package, advisory) for package in known for advisory in package["vulns"]]
for package, advisory in advisories:
    fixed = ", ".join(advisory["fix_versions"]) or "no version yet"
    print(package["name"], package["version"], advisory["id"], "fixed in", fixed)
if known:
    print(f"make audit: {len(known)} of {len(packages)} versions checked, {len(advisories)} advisories")
else:
    reason = "pip-audit is not installed, or the advisory service did not respond or knows none of the versions"
    print(f"make audit: nothing was checked: {reason}")
sys.exit(bool(advisories))
