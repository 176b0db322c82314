import { PlatformError } from '#core/base/errors.ts';
import type { Handlers } from '#core/http/route.ts';
import { checkOutboundUrl } from '#core/outbound/outbound-url.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { checkConditions, GITHUB_CLAIMS, GITHUB_ISSUER } from './conditions.ts';
import { type ExchangeDeps, exchangeToken } from './exchange.ts';
import type { trustRoutes } from './routes.ts';
import { deleteTrust, listTrusts, putTrust, type Trust } from './store.ts';

const MAX_TRUSTS = 50;

export const trustHandlers = (deps: ExchangeDeps): Handlers<typeof trustRoutes> => ({
  async listTrusts({ caller }) {
    const trusts = await listTrusts(deps, caller.workspace.id);
    return { status: 200, body: { trusts: trusts.map((trust) => shown(deps, trust)) } };
  },

  async createTrust({ caller, body }) {
    const { audience, agents, previews_only, expires_at, claims = {} } = body;
    const issuer = checkedIssuer(deps, body.issuer ?? GITHUB_ISSUER);
    const given = GITHUB_CLAIMS.map((name) => [name, body[name]] as const).filter(([, value]) => value !== undefined);
    const conditions: Record<string, string> = { ...claims };
    for (const [name, value] of given) {
      if (Object.hasOwn(claims, name)) {
        throw new PlatformError('INVALID_INPUT', `body.claims.${name}: is also given as body.${name}: give it once.`);
      }
      conditions[name] = value!;
    }
    checkConditions(issuer, conditions);
    const now = deps.clock.now();
    const expiresAt = expires_at === undefined ? undefined : isoTime(Date.parse(expires_at));
    if (expiresAt !== undefined && Date.parse(expiresAt) <= now) {
      throw new PlatformError('INVALID_INPUT', `body.expires_at: ${expiresAt} is in the past: send a later time.`);
    }
    if (audience === undefined && deps.config.baseUrl === undefined) {
      throw new PlatformError(
        'INVALID_INPUT',
        'body.audience: is missing, and this platform has no address of its own (PLATFORM_BASE_URL).',
      );
    }
    const workspaceId = caller.workspace.id;
    if ((await listTrusts(deps, workspaceId)).length >= MAX_TRUSTS) {
      throw new PlatformError('CONFLICT', `This workspace has ${MAX_TRUSTS} trusts, the maximum: delete one first.`);
    }
    const previewsOnly = previews_only ? (true as const) : undefined;
    const about = { id: deps.ids.uuid(), workspaceId, issuer, audience, conditions, agents, previewsOnly, expiresAt };
    const trust = { ...about, createdBy: caller.userId, createdAt: isoTime(now) };
    await putTrust(deps, trust);
    return { status: 201, body: { trust: shown(deps, { ...trust, lastUsedAt: null }) } };
  },

  async deleteTrust({ caller, params: { trust_id: id } }) {
    if (id.length > 64 || !(await deleteTrust(deps, caller.workspace.id, id))) {
      throw new PlatformError('NOT_FOUND', `The workspace has no trust with the id "${id.slice(0, 64)}".`);
    }
    return { status: 200, body: { deleted: true, id } };
  },

  async exchangeTrustToken({ body, requestUuid, address }) {
    const { key, prefix, expiresAt, workspace, trust } = await exchangeToken(deps, body, { requestUuid, address });
    return {
      status: 200,
      body: {
        api_key: key,
        api_key_prefix: prefix,
        expires_at: expiresAt,
        workspace_id: workspace.id,
        workspace_slug: workspace.slug,
        trust_id: trust.id,
        agents: trust.agents ? [...trust.agents] : null,
        previews_only: trust.previewsOnly ?? false,
      },
      headers: { 'cache-control': 'no-store' },
    };
  },
});

const shown = ({ config }: Pick<Deps, 'config'>, trust: Trust) => ({
  id: trust.id,
  issuer: trust.issuer,
  audience: trust.audience ?? config.baseUrl ?? '',
  claims: { ...trust.conditions },
  agents: trust.agents ? [...trust.agents] : null,
  previews_only: trust.previewsOnly ?? false,
  expires_at: trust.expiresAt ?? null,
  created_by: trust.createdBy,
  created_at: trust.createdAt,
  last_used_at: trust.lastUsedAt,
});

/** Returns an issuer as tokens name it. Throws INVALID_INPUT for an address that the platform would not read keys from. */
function checkedIssuer({ config }: Pick<Deps, 'config'>, issuer: string): string {
  const { url } = checkOutboundUrl(issuer, config.outboundHosts, 'body.issuer', GITHUB_ISSUER);
  if (url.search === '' && url.hash === '' && (url.href === issuer || url.href === `${issuer}/`)) return issuer;
  throw new PlatformError(
    'INVALID_INPUT',
    'body.issuer: must be the plain address of an issuer, without a query, as its tokens spell it.',
    { hint: `That of GitHub Actions is ${GITHUB_ISSUER}.` },
  );
}
