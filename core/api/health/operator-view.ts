import { checkOperator } from '#core/accounts/operator.ts';
import { isPlatformError } from '#core/base/errors.ts';
import { isFromLoopback, isLoopbackHost } from '#core/http/loopback.ts';
import type { HttpRequest, RequestHeaders } from '#core/http/message.ts';
import type { OperatorKey } from '#core/ports/operator-key.ts';

type Asked = { readonly request: Pick<HttpRequest, 'headers'>; readonly address?: string | undefined };

/**
 * Throws like {@link checkOperator}, except for a program or page on the platform's own machine, which needs no key.
 * Requests through a proxy, whose clients may be anywhere, and requests from another site or a foreign host name (DNS
 * rebinding) always need one.
 */
export async function checkMaySee(deps: { readonly operatorKey: OperatorKey }, asked: Asked): Promise<void> {
  if (!isFromThisMachine(asked)) await checkOperator(deps, asked.request);
}

export const maySee = (deps: { readonly operatorKey: OperatorKey }, asked: Asked): Promise<boolean> =>
  checkMaySee(deps, asked).then(
    () => true,
    (error) => {
      if (isPlatformError(error)) return false;
      throw error;
    },
  );

const isFromThisMachine = ({ request: { headers }, address = '' }: Asked): boolean =>
  isFromLoopback(address, (name) => headers.has(name)) &&
  isLoopbackHost(headers.get('host') ?? '') &&
  !isOfAnotherSite(headers);

function isOfAnotherSite(headers: RequestHeaders): boolean {
  const site = headers.get('sec-fetch-site');
  return site === null ? headers.has('origin') : !['same-origin', 'none'].includes(site);
}
