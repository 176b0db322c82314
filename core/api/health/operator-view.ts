import { checkOperator } from '#core/accounts/operator.ts';
import { isPlatformError } from '#core/base/errors.ts';
import type { HttpRequest, RequestHeaders } from '#core/http/message.ts';
import type { OperatorKey } from '#core/ports/operator-key.ts';

type Asked = { readonly request: Pick<HttpRequest, 'headers'>; readonly address?: string | undefined };

const LOOPBACK = /^(::ffff:)?127\.|^::1$/;
const LOOPBACK_HOST = /^(127\.\d+\.\d+\.\d+|localhost|\[::1\])(:\d+)?$/i;

/**
 * Throws as {@link checkOperator} does unless a program or a page on the platform's own machine asks, which needs no key: not
 * through a proxy, whose clients may be anywhere, and not by a page of another site, or a foreign name that leads here (DNS
 * rebinding).
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

const PROXIED = ['forwarded', 'via', 'x-forwarded-for', 'x-real-ip'];

const isFromThisMachine = ({ request: { headers }, address = '' }: Asked): boolean =>
  LOOPBACK.test(address) &&
  LOOPBACK_HOST.test(headers.get('host') ?? '') &&
  !PROXIED.some((name) => headers.has(name)) &&
  !isOfAnotherSite(headers);

function isOfAnotherSite(headers: RequestHeaders): boolean {
  const site = headers.get('sec-fetch-site');
  return site === null ? headers.has('origin') : !['same-origin', 'none'].includes(site);
}
