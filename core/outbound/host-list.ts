/** Whether `host` is on a list of names and addresses; `*.example.org` matches all subdomains. */
export function isOnHostList(host: string, list: readonly string[]): boolean {
  return list.some((pattern) => {
    const wanted = pattern.toLowerCase().replace(/\.$/, '');
    return wanted.startsWith('*.') ? host.endsWith(wanted.slice(1)) && host !== wanted.slice(2) : host === wanted;
  });
}

/**
 * Whether a host and port are on a list of `host:port`. `*.example.org:443` matches all subdomains, IPv6 addresses
 * have brackets, and an entry without a port means port 443.
 */
export function isOnTargetList({ host, port }: { host: string; port: number }, list: readonly string[]): boolean {
  return list.some((entry) => {
    const [, pattern = '', number = '443'] = /^(\[.*\]|[^:]*)(?::(\d+))?$/.exec(entry) ?? [];
    return port === Number(number) && isOnHostList(host, [pattern.replace(/^\[|\]$/g, '')]);
  });
}
