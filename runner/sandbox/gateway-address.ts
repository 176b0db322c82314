import { isIP } from 'node:net';
import type { Gateway } from './egress-proxy.ts';

/**
 * Returns the platform's address for sandboxes if it is numeric, because egress rules may block it. A host name
 * resolves to a public address.
 */
export function gatewayOf(url: string | undefined): Gateway | undefined {
  if (!url) return undefined;
  const { hostname, port, protocol } = new URL(url);
  if (isIP(hostname) === 0) return undefined;
  return { host: hostname, port: Number(port || (protocol === 'https:' ? 443 : 80)) };
}
