import { isIP } from 'node:net';
import type { Gateway } from './egress-proxy.ts';

/** The platform as sandboxes reach it, if its address is numeric: egress rules may close that one. A name leads to a public address. */
export function gatewayOf(url: string | undefined): Gateway | undefined {
  if (!url) return undefined;
  const { hostname, port, protocol } = new URL(url);
  if (isIP(hostname) === 0) return undefined;
  return { host: hostname, port: Number(port || (protocol === 'https:' ? 443 : 80)) };
}
