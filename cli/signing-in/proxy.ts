/** Requests to this machine never use a proxy. */
const DIRECT = ['127.0.0.1', 'localhost', '::1'];

/**
 * Sends the requests of this process through the proxy of `HTTP_PROXY` and `HTTPS_PROXY`, except to hosts in `NO_PROXY`
 * and to this machine. Node before 24.14 does not support this; there, set `NODE_USE_ENV_PROXY=1`.
 */
export async function useProxy(env: Readonly<Record<string, string | undefined>>): Promise<void> {
  const HTTP_PROXY = env.http_proxy ?? env.HTTP_PROXY;
  const HTTPS_PROXY = env.https_proxy ?? env.HTTPS_PROXY;
  if (!HTTP_PROXY && !HTTPS_PROXY) return;
  const { default: http } = await import('node:http');
  const NO_PROXY = [env.no_proxy ?? env.NO_PROXY, ...DIRECT].filter(Boolean).join(',');
  const set = http.setGlobalProxyFromEnv as typeof http.setGlobalProxyFromEnv | undefined;
  set?.({ ...(HTTP_PROXY && { HTTP_PROXY }), ...(HTTPS_PROXY && { HTTPS_PROXY }), NO_PROXY });
}
