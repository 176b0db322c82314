import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import { readForm } from '#core/http/form.ts';
import { isLoopbackName } from '#core/http/loopback.ts';
import type { HttpRequest } from '#core/http/message.ts';
import type { Handlers } from '#core/http/route.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { entryOperation } from '../audit/log.ts';
import { answerPage } from '../sign-in/page-answers.ts';
import { checkRedirectUri, readClient } from './client-document.ts';
import {
  CLIENT_SCOPES,
  type ClientScope,
  endConnectedClient,
  findConnectedClient,
  listConnectedClients,
} from './connected-client.ts';
import { createCode, findRequest, keepRequest, scopesFor, takeRequest, workspacesFor } from './requests.ts';
import { namedResource, resourcePathOf, typedAddress } from './resources.ts';
import type { clientRoutes } from './routes.ts';
import { ACCESS_LIFE_MS, exchangeCode, type Issued, OAuthError, refresh, revoke } from './tokens.ts';

export type ClientDeps = Pick<AllDeps, 'main' | 'counters' | 'clock' | 'ids' | 'config' | 'exchanges'>;
type ClientHandlers = Handlers<typeof clientRoutes>;

const MAX_FORM = { bytes: 16 * 1024 };
const MAX_STATE = 2000;
const NO_STORE = { 'cache-control': 'no-store' };
/** Metadata changes with the address of the platform only. */
const METADATA_HEADERS = { 'cache-control': 'public, max-age=300' };

/** The authorization server for clients (`docs/interface/client-sign-in.md`). */
export const clientHandlers = (deps: ClientDeps): ClientHandlers => ({
  ...metadataHandlers(deps),
  ...oauthHandlers(deps),
  ...consentHandlers(deps),
  ...connectionHandlers(deps),
});

const issuerOf = ({ config }: Pick<ClientDeps, 'config'>): string => config.baseUrl ?? 'http://127.0.0.1';

type Metadata =
  | 'getResourceMetadata'
  | 'getShortResourceMetadata'
  | 'getLongResourceMetadata'
  | 'getAuthorizationServer';

function metadataHandlers(deps: ClientDeps): Pick<ClientHandlers, Metadata> {
  const ofResource = (path: string, { headers }: HttpRequest) => {
    if (resourcePathOf(path) !== path) {
      throw new PlatformError('NOT_FOUND', `Nothing at ${path.slice(0, 200)} accepts tokens of signed-in clients.`);
    }
    const body = {
      resource: `${typedAddress(deps.config, headers)}${path}`,
      authorization_servers: [issuerOf(deps)],
      scopes_supported: [...CLIENT_SCOPES],
      bearer_methods_supported: ['header'],
      resource_name: 'Agent Platform',
    };
    return { status: 200, body, headers: METADATA_HEADERS } as const;
  };
  return {
    getResourceMetadata: async ({ request }) => ofResource('/mcp', request),
    getShortResourceMetadata: async ({ request, params: { first } }) => ofResource(`/${first}`, request),
    getLongResourceMetadata: async ({ request, params: { first, second, third } }) =>
      ofResource(`/${first}/${second}/${third}`, request),

    async getAuthorizationServer() {
      const issuer = issuerOf(deps);
      const body = {
        issuer,
        authorization_endpoint: `${issuer}/oauth/authorize`,
        token_endpoint: `${issuer}/oauth/token`,
        revocation_endpoint: `${issuer}/oauth/revoke`,
        scopes_supported: [...CLIENT_SCOPES],
        response_types_supported: ['code'],
        response_modes_supported: ['query'],
        grant_types_supported: ['authorization_code', 'refresh_token'],
        token_endpoint_auth_methods_supported: ['none'],
        revocation_endpoint_auth_methods_supported: ['none'],
        code_challenge_methods_supported: ['S256'],
        authorization_response_iss_parameter_supported: true,
        client_id_metadata_document_supported: true,
      };
      return { status: 200, body, headers: METADATA_HEADERS };
    },
  };
}

/** Adds the parameters of an answer to a redirect URI, with the issuer (RFC 9207). */
function answerUri(deps: ClientDeps, redirectUri: string, params: Record<string, string | undefined>): string {
  const url = new URL(redirectUri);
  for (const [name, value] of Object.entries({ ...params, iss: issuerOf(deps) })) {
    if (value !== undefined) url.searchParams.set(name, value);
  }
  return url.href;
}

/** Why a request is refused, as the client gets it in the address. */
class Refused extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

function oauthHandlers(
  deps: ClientDeps,
): Pick<ClientHandlers, 'authorizeClient' | 'getClientToken' | 'revokeClientToken'> {
  return {
    async authorizeClient({ request }) {
      return answerPage(request, async () => {
        const given = new URL(request.url, 'http://host').searchParams;
        for (const name of ['client_id', 'redirect_uri']) {
          if (given.getAll(name).length !== 1) throw new PlatformError('INVALID_INPUT', `${name}: must be given once.`);
        }
        const client = await readClient(deps, given.get('client_id')!);
        const redirectUri = given.get('redirect_uri')!;
        checkRedirectUri(client, redirectUri);
        const { dashboardUrl } = deps.config;
        if (dashboardUrl === undefined) {
          throw new PlatformError('UNPROCESSABLE', 'This platform has no dashboard, on which users let clients in.', {
            hint: 'Give the client an API key.',
          });
        }
        const states = given.getAll('state');
        const state = states.length === 1 && states[0]!.length <= MAX_STATE ? states[0] : undefined;
        let location: string;
        try {
          const asked = askedIn(deps, given);
          const kept = { clientId: client.id, clientName: client.name, redirectUri, ...asked };
          const name = await keepRequest(deps, { ...kept, ...(state !== undefined && { state }) });
          location = `${new URL(dashboardUrl).pathname}/authorize?request=${name}`;
        } catch (error) {
          if (!(error instanceof Refused)) throw error;
          const { code, message } = error;
          location = answerUri(deps, redirectUri, { error: code, error_description: message, state });
        }
        return { status: 303, headers: { location } };
      });
    },

    async getClientToken({ request, requestUuid, address }) {
      return answered(async () => {
        const form = await readForm(request, MAX_FORM);
        const given = textIn(form);
        if (form.grant_type === 'refresh_token') {
          const { scope } = form;
          if (scope !== undefined && !isScope(scope)) throw new OAuthError('invalid_scope', 'scope: unknown.');
          const [refreshToken, clientId] = [given('refresh_token'), given('client_id')];
          return tokenAnswer(await refresh(deps, { refreshToken, clientId, resource: resourceIn(deps, form), scope }));
        }
        if (form.grant_type !== 'authorization_code') {
          throw new OAuthError('unsupported_grant_type', 'grant_type: must be authorization_code or refresh_token.');
        }
        const exchange = {
          code: given('code'),
          verifier: given('code_verifier'),
          clientId: given('client_id'),
          redirectUri: given('redirect_uri'),
          resource: resourceIn(deps, form),
        };
        const issued = await exchangeCode(deps, exchange, ({ id, userId, workspaceId, clientId, scope }) => {
          const by = { userId, keyId: id };
          const subject = { workspaceId, operation: 'getClientToken', by };
          return [entryOperation(deps, subject, { requestUuid, address, params: { client_id: clientId, scope } })];
        });
        return tokenAnswer(issued);
      });
    },

    async revokeClientToken({ request }) {
      return answered(async () => {
        const form = await readForm(request, MAX_FORM);
        await revoke(deps, textIn(form)('token'), form.client_id);
        return { status: 200, body: {}, headers: NO_STORE } as const;
      });
    },
  };
}

const isScope = (text: string): text is ClientScope => (CLIENT_SCOPES as readonly string[]).includes(text);

/** Returns what the client asks for. Throws {@link Refused}. */
function askedIn({ config }: ClientDeps, given: URLSearchParams) {
  const one = (name: string): string | undefined => {
    const values = given.getAll(name);
    if (values.length > 1) throw new Refused('invalid_request', `${name}: must be given once.`);
    return values[0];
  };
  const state = one('state') ?? '';
  if (state.length > MAX_STATE) throw new Refused('invalid_request', `state: at most ${MAX_STATE} characters.`);
  if (one('response_type') !== 'code') throw new Refused('unsupported_response_type', 'response_type: must be code.');
  const challenge = one('code_challenge') ?? '';
  if (one('code_challenge_method') !== 'S256' || !/^[\w-]{43}$/.test(challenge)) {
    throw new Refused('invalid_request', 'code_challenge: PKCE with the method S256 is required.');
  }
  const resource = namedResource(config, one('resource') ?? '');
  if (resource === undefined) {
    throw new Refused(
      'invalid_target',
      'resource: must be the address of an MCP server or A2A agent of this platform.',
    );
  }
  // A client may list several; each includes the ones before it. Scopes of other servers, such as offline_access, mean nothing here.
  const scopes = (one('scope') ?? '').split(' ').filter((text) => text !== '');
  const known = scopes.filter(isScope);
  if (scopes.length > 0 && known.length === 0) throw new Refused('invalid_scope', 'scope: read, run or manage.');
  const scope = CLIENT_SCOPES.findLast((each) => known.includes(each)) ?? 'run';
  return { challenge, resource, scope };
}

/** Returns a reader of required members. */
const textIn =
  (form: Readonly<Record<string, string>>) =>
  (name: string): string => {
    const text = form[name];
    if (text === undefined || text === '') throw new OAuthError('invalid_request', `${name}: is missing.`);
    return text;
  };

function resourceIn({ config }: ClientDeps, { resource }: Readonly<Record<string, string>>): string | undefined {
  if (resource === undefined) return undefined;
  const path = namedResource(config, resource);
  if (path === undefined) throw new OAuthError('invalid_target', 'resource: is none of this platform.');
  return path;
}

const tokenAnswer = ({ accessToken, refreshToken, scope }: Issued) =>
  ({
    status: 200,
    body: {
      access_token: accessToken,
      token_type: 'Bearer',
      expires_in: ACCESS_LIFE_MS / 1000,
      refresh_token: refreshToken,
      scope,
    },
    headers: NO_STORE,
  }) as const;

/** Answers errors in the form of OAuth. */
async function answered<Answer>(make: () => Promise<Answer>) {
  try {
    return await make();
  } catch (error) {
    const isOurs = isPlatformError(error) && error.code !== 'INTERNAL_ERROR';
    if (!isOurs && !(error instanceof OAuthError)) throw error;
    const { message } = error as Error;
    const body = { error: error instanceof OAuthError ? error.code : 'invalid_request', error_description: message };
    const content = new TextEncoder().encode(JSON.stringify(body));
    return { status: 400, raw: { contentType: 'application/json', content }, headers: NO_STORE };
  }
}

function consentHandlers(deps: ClientDeps): Pick<ClientHandlers, 'getClientRequest' | 'answerClientRequest'> {
  return {
    async getClientRequest({ caller, params, request: { headers } }) {
      const asked = await findRequest(deps, params.request);
      const memberships = await workspacesFor(deps, caller);
      const redirect = new URL(asked.redirectUri);
      const isLocal = isLoopbackName(redirect.hostname);
      const body = {
        client_id: asked.clientId,
        client_name: asked.clientName,
        client_host: new URL(asked.clientId).host,
        redirect_host: isLocal || redirect.protocol === 'https:' ? redirect.host : redirect.protocol,
        is_local: isLocal,
        resource: `${typedAddress(deps.config, headers)}${asked.resource}`,
        scope: asked.scope,
        scopes: scopesFor(caller, asked.scope),
        workspaces: memberships.map(({ workspace: { id, slug, name } }) => ({ id, slug, name })),
        expires_at: isoTime(asked.expires),
      };
      return { status: 200, body, headers: NO_STORE };
    },

    async answerClientRequest({ caller, params, body }) {
      const { redirectUri, state, ...asked } = await findRequest(deps, params.request);
      if (body.answer === 'deny') {
        await takeRequest(deps, params.request);
        return { status: 200, body: { redirect_to: answerUri(deps, redirectUri, { error: 'access_denied', state }) } };
      }
      const { workspace_id: workspaceId, scope } = body;
      if (workspaceId === undefined || scope === undefined) {
        throw new PlatformError('INVALID_INPUT', 'body: to allow a client, give workspace_id and scope.');
      }
      const given = { workspaceId, scope };
      const code = await createCode(deps, { redirectUri, ...asked }, caller, given, () =>
        takeRequest(deps, params.request),
      );
      const redirect_to = answerUri(deps, redirectUri, { code, state });
      return { status: 200, body: { redirect_to }, headers: NO_STORE };
    },
  };
}

function connectionHandlers(deps: ClientDeps): Pick<ClientHandlers, 'listConnectedClients' | 'deleteConnectedClient'> {
  return {
    async listConnectedClients({ caller, request: { headers } }) {
      const only = caller.limits?.workspaceId;
      const all = await listConnectedClients(deps, caller.userId);
      const clients = all
        .filter(({ workspaceId }) => only === undefined || workspaceId === only)
        .map((connection) => ({
          id: connection.id,
          client_id: connection.clientId,
          client_name: connection.clientName,
          resource: `${typedAddress(deps.config, headers)}${connection.resource}`,
          workspace_id: connection.workspaceId,
          scope: connection.scope,
          created_at: connection.createdAt,
          last_used_at: connection.lastUsedAt,
        }));
      return { status: 200, body: { clients } };
    },

    async deleteConnectedClient({ caller, params: { id } }) {
      const found = id.length <= 64 ? await findConnectedClient(deps, caller.userId, id) : undefined;
      const only = caller.limits?.workspaceId;
      if (found === undefined || (only !== undefined && only !== found.workspaceId)) {
        throw new PlatformError('NOT_FOUND', `You have no connected client with the id "${id.slice(0, 64)}".`);
      }
      await endConnectedClient(deps, caller.userId, id);
      return { status: 200, body: { deleted: true, id } };
    },
  };
}
