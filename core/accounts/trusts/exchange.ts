import { hash } from 'node:crypto';
import type { TrustCaller } from '#core/base/caller.ts';
import { hasCode, PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { epochSeconds, isoTime } from '#core/ports/clock.ts';
import type { AllDeps, Deps } from '#core/ports/deps.ts';
import { type IdToken, type IdTokenFailure, MAX_ID_TOKEN_BYTES } from '#core/ports/id-tokens.ts';
import { absent } from '#core/ports/table.ts';
import { entryOperation, type RequestOrigin, refusedEntry } from '../audit/log.ts';
import { newTrustKey, trustUserId } from '../keys/store.ts';
import { checkStays } from '../workspaces/moving.ts';
import { findWorkspace, findWorkspaceIdBySlug } from '../workspaces/store.ts';
import { shownClaims, unmet } from './conditions.ts';
import { hasEnded, listTrusts, type Trust, useOfTrust } from './store.ts';

export type ExchangeDeps = Pick<Deps, 'main' | 'counters' | 'clock' | 'ids' | 'config' | 'log'> &
  Pick<AllDeps, 'idTokens'>;

/** Life of a key: a publish waits for its installation at most that long. */
const KEY_LIFE_MS = 10 * 60_000;
/** Refused attempts of an hour that the audit log of a workspace has: anybody may try. */
const MAX_LISTED_REFUSALS = 30;
const HOUR_MS = 3_600_000;
/** More than a trust can name. */
const MANY_AGENTS = 1000;
const OPERATION = 'exchangeTrustToken';
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Used tokens. Counters table, with expiry: `TRUSTTOKEN#<hash of issuer and id> / META`. */
const usedKey = (issuer: string, id: string) => ({
  pk: `TRUSTTOKEN#${hash('sha256', `${issuer}\n${id}`)}`,
  sk: 'META',
});
/** Number of refusals in an hour. Counters table, with expiry. */
const refusalsKey = (workspaceId: string, hour: number) => ({ pk: `TRUSTREFUSALS#${workspaceId}`, sk: String(hour) });

/** One text for whatever is wrong, so that strangers learn nothing of a workspace and its trusts. */
const refused = (): PlatformError =>
  new PlatformError('UNAUTHORIZED', 'The workspace does not trust this token, or the token is not valid.', {
    hint: 'The audit log of the workspace tells its owners the reason.',
  });

/** Reason of a refusal, for the owners: a sentence without a full stop. */
class Refusal extends Error {
  readonly token: TrustCaller | undefined;

  constructor(reason: string, token?: TrustCaller) {
    super(reason);
    this.token = token;
  }
}

export interface Exchanged {
  readonly key: string;
  readonly prefix: string;
  readonly expiresAt: string;
  readonly workspace: Workspace;
  readonly trust: Trust;
}

/**
 * Exchanges an ID token for a key with the scope `publish`, once. Throws UNAUTHORIZED in one wording, and writes the reason to
 * the audit log.
 *
 * @param named Slug or id of the workspace.
 */
export async function exchangeToken(
  deps: ExchangeDeps,
  { workspace: named, token }: { readonly workspace: string; readonly token: string },
  by: RequestOrigin,
): Promise<Exchanged> {
  // Only an id may become part of a key: other texts could name other items.
  const id = UUID.test(named) ? named : await findWorkspaceIdBySlug(deps, named);
  const workspace = id === undefined ? undefined : await findWorkspace(deps, id);
  if (workspace === undefined) throw refused();
  try {
    return await exchanged(deps, workspace, token, by);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    await noteRefusal(deps, workspace, error, by);
    throw refused();
  }
}

async function exchanged(deps: ExchangeDeps, workspace: Workspace, token: string, by: RequestOrigin) {
  const now = deps.clock.now();
  const issuer = issuerOf(token);
  const trusts = (await listTrusts(deps, workspace.id)).filter((trust) => trust.issuer === issuer);
  // The issuer is only asked for its keys if an owner named it.
  if (issuer === undefined || trusts.length === 0) throw new Refusal('the workspace trusts no such issuer');
  const verified = await verifiedToken(deps, token, issuer);
  const claims = shownClaims(verified.claims);
  const [trust, problem] = choose(deps, trusts, verified, now);
  const job: TrustCaller = { id: trust.id, issuer, claims };
  if (problem !== undefined) throw new Refusal(problem, job);
  // Strangers must not learn where a workspace is, so this comes after the token was found to be trusted.
  checkStays(workspace, 'change');
  await useUp(deps, issuer, verified, job);
  const trustEnd = trust.expiresAt === undefined ? Number.POSITIVE_INFINITY : Date.parse(trust.expiresAt);
  const { agents, previewsOnly } = trust;
  const made = newTrustKey(
    deps,
    { trust: job, workspace, agents, previewsOnly },
    Math.min(now + KEY_LIFE_MS, trustEnd),
  );
  const { id: keyId, userId, prefix } = made.record;
  const subject = { workspaceId: workspace.id, operation: OPERATION, by: { userId, keyId, trust: job } };
  const written = await deps.main.transact([
    made.operation,
    useOfTrust(trust, isoTime(now)),
    entryOperation(deps, subject, { ...by, params: { trust_id: trust.id } }),
  ]);
  if (!written.ok) throw new Refusal('the trust was deleted meanwhile', job);
  return { key: made.key, prefix, expiresAt: made.record.limits!.expiresAt!, workspace, trust };
}

/** Returns what the token says of its issuer, unverified. */
function issuerOf(token: string): string | undefined {
  if (Buffer.byteLength(token) > MAX_ID_TOKEN_BYTES) {
    throw new Refusal(`the token has more than ${MAX_ID_TOKEN_BYTES / 1024} KB`);
  }
  try {
    const { iss } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
    return typeof iss === 'string' ? iss : undefined;
  } catch {
    throw new Refusal('it is not a signed JSON Web Token');
  }
}

async function verifiedToken({ idTokens, log }: ExchangeDeps, token: string, issuer: string): Promise<IdToken> {
  try {
    return await idTokens.verify(token, issuer);
  } catch (error) {
    if (!hasCode(error, 'ID_TOKEN_REFUSED')) throw error;
    const { kind, message } = error as IdTokenFailure;
    if (kind === 'unreachable') log.warn('keys of an issuer unread', { issuer, reason: message });
    throw new Refusal(message);
  }
}

/**
 * Returns the trust whose conditions the token meets; of several, one for all versions before one for previews, then the one
 * for most agents. Else the first one, and why it is not met.
 */
function choose(
  { config }: Pick<ExchangeDeps, 'config'>,
  trusts: readonly Trust[],
  { audiences, claims }: IdToken,
  now: number,
): readonly [Trust, problem?: string] {
  const own = [config.baseUrl, config.callUrl].filter((url) => url !== undefined);
  const problemOf = (trust: Trust): string | undefined => {
    if (hasEnded(trust, now)) return 'the trust has expired';
    const wanted = trust.audience === undefined ? own : [trust.audience];
    if (!audiences.some((each) => wanted.includes(each))) return `its audience is not ${wanted.join(' or ')}`;
    return unmet(trust.conditions, claims);
  };
  // One that may publish versions counts for more than one for previews.
  const agentsOf = ({ agents, previewsOnly }: Trust): number =>
    (agents?.length ?? MANY_AGENTS) + (previewsOnly ? 0 : 2 * MANY_AGENTS);
  const met = trusts.filter((trust) => problemOf(trust) === undefined).sort((a, b) => agentsOf(b) - agentsOf(a));
  return met[0] ? [met[0]] : [trusts[0]!, problemOf(trusts[0]!)];
}

/** Throws for a token that was used before. */
async function useUp(
  { counters, clock, ids }: ExchangeDeps,
  issuer: string,
  { id, validUntil }: IdToken,
  job: TrustCaller,
): Promise<void> {
  // Two attempts must not write the same item: a store takes that for one write that was sent twice.
  const item = { ...usedKey(issuer, id), use: ids.uuid(), ttl: epochSeconds(Math.max(validUntil, clock.now())) + 1 };
  if (!(await counters.put(item, absent())).ok) throw new Refusal('it was used before', job);
}

/** Records a refusal for the owners. */
async function noteRefusal(
  deps: ExchangeDeps,
  { id: workspaceId, move }: Workspace,
  { message: reason, token }: Refusal,
  by: RequestOrigin,
): Promise<void> {
  deps.log.info('token of a job refused', { workspace_id: workspaceId, reason });
  // Nothing is written to a workspace while it moves.
  if (move !== undefined) return;
  const now = deps.clock.now();
  const hour = Math.floor(now / HOUR_MS);
  const changes = { add: { refusals: 1 }, set: { ttl: epochSeconds(now + 2 * HOUR_MS) } };
  const counted = await deps.counters.update(refusalsKey(workspaceId, hour), changes);
  if (counted.ok && (counted.item.refusals as number) > MAX_LISTED_REFUSALS) return;
  const subject = {
    workspaceId,
    operation: OPERATION,
    audit: { request: ['reason'] },
    by: { userId: trustUserId(token?.id ?? ''), ...(token && { trust: token }) },
  };
  const entry = refusedEntry(deps, subject, { ...by, params: {}, body: { reason } }, 'UNAUTHORIZED');
  await deps.main.transact([entry]);
}
