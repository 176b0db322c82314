import type { AgentCaller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { RequestHeaders } from '#core/http/message.ts';
import { isSame, signBillingOrg, signChain } from './run-context.ts';

const CHAIN = ['X-Platform-Call-Chain', 'X-Platform-Call-Chain-Sig'] as const;
const BILLING_ORG = ['X-Platform-Billing-Org-Id', 'X-Platform-Billing-Org-Sig'] as const;

/**
 * Throws FORBIDDEN if a signature is wrong or cannot be verified, because its sender relies on it, and
 * MISSING_BILLING_ORG
 * if chain headers come without the billing organization. Accepts a request without any of these headers: its key
 * identifies the run.
 */
export function checkSignatures(caller: AgentCaller, headers: RequestHeaders): void {
  if (![...CHAIN, ...BILLING_ORG].some((name) => headers.has(name))) return;
  const context = caller.kind === 'run' ? caller.context : undefined;
  if (!BILLING_ORG.every((name) => headers.has(name))) {
    throw new PlatformError(
      'MISSING_BILLING_ORG',
      `A call with the chain headers of a run needs ${BILLING_ORG.join(' and ')}, too.`,
    );
  }
  checkSignature(headers, BILLING_ORG, context && [context.workspace.id, signBillingOrg(context)]);
  if (CHAIN.some((name) => headers.has(name))) {
    checkSignature(headers, CHAIN, context && [context.chain.join(','), signChain(context)]);
  }
}

/** Throws FORBIDDEN unless the two headers have the expected value and signature. */
function checkSignature(
  headers: RequestHeaders,
  names: readonly [string, string],
  expected: readonly [string, string] | undefined,
): void {
  if (expected?.every((text, index) => isSame(headers.get(names[index]!) ?? '', text))) return;
  throw new PlatformError(
    'FORBIDDEN',
    `${names[0]} is not what the platform signed for the run of this service key: send ${names.join(' and ')} as they are in its environment, or not at all.`,
  );
}
