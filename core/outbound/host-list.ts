/** Whether `host` is on a list of names and addresses, in which `*.example.org` stands for all subdomains. */
export function isOnHostList(host: string, list: readonly string[]): boolean {
  return list.some((pattern) => {
    const wanted = pattern.toLowerCase().replace(/\.$/, '');
    return wanted.startsWith('*.') ? host.endsWith(wanted.slice(1)) && host !== wanted.slice(2) : host === wanted;
  });
}
