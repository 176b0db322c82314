/** Names that always mean this machine, as URLs write them. A foreign name may lead here, too (DNS rebinding). */
const NAMES: readonly string[] = ['127.0.0.1', 'localhost', '[::1]'];

/** Headers that proxies add: their clients may be anywhere. */
const PROXIED = ['forwarded', 'via', 'x-forwarded-for', 'x-real-ip'];

/** Whether the host name of a URL is this machine's. */
export const isLoopbackName = (hostname: string): boolean => NAMES.includes(hostname.toLowerCase());

/** The same of a header `Host`, with or without a port. */
export const isLoopbackHost = (host: string): boolean => isLoopbackName(host.replace(/:\d*$/, ''));

/** Whether a request came from this machine: from the address of its socket, and through no proxy. */
export const isFromLoopback = (address: string, hasHeader: (name: string) => boolean): boolean =>
  /^(::ffff:)?127\.|^::1$/.test(address) && !PROXIED.some(hasHeader);
