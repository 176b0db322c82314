/** Names that always mean this machine, as URLs write them. Other names may also resolve to it (DNS rebinding). */
const NAMES: readonly string[] = ['127.0.0.1', 'localhost', '[::1]'];

/** Headers that proxies add; their clients may be on any machine. */
const PROXIED = ['forwarded', 'via', 'x-forwarded-for', 'x-real-ip'];

/** Whether the host name of a URL means this machine. */
export const isLoopbackName = (hostname: string): boolean => NAMES.includes(hostname.toLowerCase());

/** Whether a `Host` header, with or without a port, means this machine. */
export const isLoopbackHost = (host: string): boolean => isLoopbackName(host.replace(/:\d*$/, ''));

/** Whether a request came from this machine, by the address of its socket, and not through a proxy. */
export const isFromLoopback = (address: string, hasHeader: (name: string) => boolean): boolean =>
  /^(::ffff:)?127\.|^::1$/.test(address) && !PROXIED.some(hasHeader);
