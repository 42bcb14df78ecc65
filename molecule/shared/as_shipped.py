"""The node as the image has it: what a test begins with, whatever an earlier one has left."""

from __future__ import annotations

from fleet import STATE

SERVICE_DIR = "/usr/local/lib/gpu_node_tuning"

# Only the package's own tools put the package's own files back. The link and the conffile come from its archive.
RESET = """
systemctl stop engine.service 2>/dev/null || true
rm -rf {state} {service} /opt/engine /etc/nccl.conf /etc/python{python} /usr/local/lib/python{python}/dist-packages/*customize* \\
    /usr/local/lib/python{python}/dist-packages/__pycache__ /etc/systemd/system/engine.service*
rm -f {link}
find /usr/lib/python{python} -maxdepth 2 -name 'sitecustomize.*.pyc' -delete
systemctl daemon-reload
if [ "$(dpkg-query -W -f '${{Version}} ${{Status}}' {package})" != "$(dpkg-deb -f {deb} Version) install ok installed" ]; then
    DEBIAN_FRONTEND=noninteractive dpkg --force-downgrade --force-confnew --force-confmiss -i {deb} >/dev/null 2>&1 </dev/null
fi
dpkg-deb --fsys-tarfile {deb} | tar -x -C / ./etc/python{python} .{link}
# The first start writes the bytecode: a comparison of times must not find it later.
/usr/bin/python3 -c pass
"""


def reset(node) -> None:
    node.sh(
        RESET.format(
            state=STATE, service=SERVICE_DIR, python=node.python, link=node.link, package=node.package, deb=node.deb
        )
    )
    assert node.read(node.file) == node.vendor_bytes()
    assert node.host.check_output("readlink %s", node.link) == node.file
