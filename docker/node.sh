#!/bin/sh
# A node of compose.yaml: sshd of an ordinary user, whom the launcher's key lets in. The private half of the host's key stays in this container.
set -eu
key=$HOME/host_key
[ -f "$key" ] || ssh-keygen -q -t ed25519 -N '' -C "$(hostname)" -f "$key"
# The launcher looks here for who may call himself by this host's name.
printf '[%s]:2222 %s\n' "$(hostname)" "$(cat "$key.pub")" >/keys/hosts/.new."$(hostname)"
mv /keys/hosts/.new."$(hostname)" "/keys/hosts/$(hostname)"
exec /usr/sbin/sshd -D -e -f /dev/null -p 2222 -h "$key" -o PidFile=none -o AuthorizedKeysFile=/keys/authorized/launcher \
  -o AuthenticationMethods=publickey -o AllowTcpForwarding=no -o X11Forwarding=no -o LogLevel=ERROR -o MaxStartups=100
