#!/bin/sh
# launcher COMMAND...: gives the nodes a key for this launcher, and runs the command. The nodes leave their host keys in /keys/hosts.
# The nodes in the command's --hosts may have just started: waits until each lets the launcher in, 30 s in all.
set -eu
key=$HOME/.ssh/id_ed25519
[ -f "$key" ] || ssh-keygen -q -t ed25519 -N '' -C launcher -f "$key"
printf 'Port 2222\nUserKnownHostsFile /keys/hosts/%%k\n' >"$HOME/.ssh/config"
cp "$key.pub" /keys/authorized/.new
mv /keys/authorized/.new /keys/authorized/launcher
nodes='' before=''
for word in "$@"; do
  case $before,$word in
    --hosts,*) nodes=$word ;;
    *,--hosts=*) nodes=${word#--hosts=} ;;
  esac
  before=$word
done
end=$(($(date +%s) + 30))
for node in $(echo "$nodes" | tr , ' '); do
  until ssh -n -o BatchMode=yes -o ConnectTimeout=2 "${node%%:*}" true 2>/dev/null || [ "$(date +%s)" -ge "$end" ]; do sleep 0.2; done
done
exec "$@"
