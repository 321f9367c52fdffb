#!/bin/sh
# A node of compose.yaml: an ordinary user's sshd, which accepts the launcher's key. The host's private key stays in this container.
set -eu
key=$HOME/host_key
[ -f "$key" ] || ssh-keygen -q -t ed25519 -N '' -C "$(hostname)" -f "$key"
# The launcher takes this host's public key from here.
printf '[%s]:2222 %s\n' "$(hostname)" "$(cat "$key.pub")" >/keys/hosts/.new."$(hostname)"
mv /keys/hosts/.new."$(hostname)" "/keys/hosts/$(hostname)"
exec /usr/sbin/sshd -D -e -f /dev/null -p 2222 -h "$key" -o PidFile=none -o AuthorizedKeysFile=/keys/authorized/launcher \
  -o AuthenticationMethods=publickey -o AllowTcpForwarding=no -o X11Forwarding=no -o LogLevel=ERROR -o MaxStartups=100
