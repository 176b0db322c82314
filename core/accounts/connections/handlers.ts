import type { Caller } from '#core/base/caller.ts';
import { connectionSecret } from '#core/base/connection-names.ts';
import { hasCode, PlatformError } from '#core/base/errors.ts';
import { escaped, page } from '#core/http/html-page.ts';
import type { Handlers } from '#core/http/route.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { ToolSignInFailure } from '#core/ports/tool-sign-in.ts';
import { answerPage } from '../sign-in/page-answers.ts';
import type { connectionRoutes } from './routes.ts';
import {
  beginConnection,
  CALLBACK_PATH,
  CLIENT_PATH,
  type ConnectDeps,
  finishConnection,
  returnOf,
} from './sign-in.ts';
import {
  type Connection,
  findConnection,
  listConnections,
  OF_WORKSPACE,
  openSecrets,
  removeConnection,
} from './store.ts';

export const connectionHandlers = (deps: ConnectDeps): Handlers<typeof connectionRoutes> => {
  const find = async (caller: Caller, name: string, owner: string): Promise<Connection> => {
    const { id: workspaceId, slug } = caller.workspace;
    const ownerId = owner === 'user' ? caller.userId : owner;
    const found = mayKnow(caller, ownerId)
      ? await findConnection(deps, { workspaceId, name, owner: ownerId })
      : undefined;
    if (found) return found;
    throw new PlatformError(
      'NOT_FOUND',
      `The workspace "${slug}" has no connection "${name.slice(0, 64)}" that you may see.`,
      {
        hint: `Connect it with: platform connect ${/^[a-z0-9-]{1,40}$/.test(name) ? name : 'NAME'} URL`,
      },
    );
  };

  return {
    async listConnections({ caller }) {
      const all = await listConnections(deps, caller.workspace.id);
      const connections = all.filter(({ owner }) => mayKnow(caller, owner)).map(viewOf);
      return { status: 200, body: { connections } };
    },

    async createConnection({ caller, body }) {
      const { name, url, owner, scopes, client_id, client_secret, endpoints, redirect_port, dashboard } = body;
      const ownerId = owner === 'user' ? caller.userId : OF_WORKSPACE;
      checkMayChange(caller, ownerId);
      if (client_id === undefined && client_secret !== undefined) {
        throw new PlatformError('INVALID_INPUT', 'client_secret: cannot be given without client_id.');
      }
      if (client_id === undefined && endpoints !== undefined) {
        throw new PlatformError(
          'INVALID_INPUT',
          'client_id: is required beside endpoints: register the platform at the provider.',
        );
      }
      const { authorizationUrl, expires } = await beginConnection(deps, {
        ...{ workspaceId: caller.workspace.id, userId: caller.userId, name, owner: ownerId },
        ...{
          url,
          scopes,
          endpoints,
          redirectPort: redirect_port,
          dashboardOf: dashboard ? caller.workspace.slug : undefined,
        },
        client: client_id === undefined ? undefined : { id: client_id, secret: client_secret },
      });
      return { status: 201, body: { authorization_url: authorizationUrl, expires_at: isoTime(expires) } };
    },

    async getConnection({ caller, params, query }) {
      return { status: 200, body: { connection: viewOf(await find(caller, params.connection, query.owner)) } };
    },

    async finishConnection({ caller, params, body }) {
      const { workspace, userId } = caller;
      const place = { workspaceId: workspace.id, userId, name: params.connection };
      return { status: 200, body: { connection: viewOf(await finishConnection(deps, place, body.answer)) } };
    },

    async deleteConnection({ caller, params, query }) {
      const connection = await find(caller, params.connection, query.owner);
      checkMayChange(caller, connection.owner);
      const secrets = await openSecrets(deps, connection);
      // The tokens are erased whether or not the provider answers.
      await removeConnection(deps, connection);
      const revoked = await deps.toolSignIn.revoke(secrets.grant, secrets.tokens).catch((error: unknown) => {
        if (!hasCode(error, 'TOOL_SIGN_IN_FAILED')) throw error;
        deps.log.warn('a connection was not revoked', { reason: (error as ToolSignInFailure).message });
        return false;
      });
      return { status: 200, body: { deleted: true, revoked } };
    },

    async connectionCallback({ request }) {
      return answerPage(request, async () => {
        const { search, searchParams } = new URL(request.url, 'http://host');
        const to = await returnOf(deps, searchParams.get('state') ?? '');
        if (to === undefined) {
          throw new PlatformError('INVALID_INPUT', 'This sign-in is finished already, or has expired: begin again.');
        }
        if (to.redirectPort !== undefined) {
          return { status: 303, headers: { location: `http://127.0.0.1:${to.redirectPort}/callback${search}` } };
        }
        const { dashboardUrl } = deps.config;
        if (to.dashboardOf !== undefined && dashboardUrl !== undefined) {
          return { status: 303, headers: { location: `${dashboardUrl}/${to.dashboardOf}/settings/secrets${search}` } };
        }
        return answerToCopy(search.slice(1));
      });
    },

    async getConnectionClient() {
      const { baseUrl = '' } = deps.config;
      return {
        status: 200,
        headers: { 'cache-control': 'public, max-age=3600' },
        body: {
          client_id: `${baseUrl}${CLIENT_PATH}`,
          client_name: 'Agent platform',
          client_uri: baseUrl,
          redirect_uris: [`${baseUrl}${CALLBACK_PATH}`],
          grant_types: ['authorization_code', 'refresh_token'],
          response_types: ['code'],
          token_endpoint_auth_method: 'none',
          application_type: 'web',
        },
      };
    },
  };
};

/** Owners of the workspace see all connections, others those of the workspace and their own. */
const mayKnow = ({ userId, role }: Caller, owner: string): boolean =>
  owner === OF_WORKSPACE || owner === userId || role === 'owner';

/** Throws FORBIDDEN. */
function checkMayChange({ userId, role, workspace }: Caller, owner: string): void {
  if (owner === userId || role === 'owner') return;
  throw new PlatformError('FORBIDDEN', `Only owners of the workspace "${workspace.slug}" may change its connections.`, {
    hint: 'Connect for yourself alone with "owner": "user", or: platform connect --mine.',
  });
}

const viewOf = (connection: Connection) => ({
  name: connection.name,
  owner: connection.owner === OF_WORKSPACE ? ('workspace' as const) : ('user' as const),
  user_id: connection.owner === OF_WORKSPACE ? null : connection.owner,
  secret: connectionSecret(connection.name),
  url: connection.url,
  issuer: connection.issuer,
  scopes: [...connection.scopes],
  state: connection.state,
  problem: connection.problem ?? null,
  expires_at: connection.canRefresh ? null : isoTime(connection.expiresAt),
  connected_by: connection.connectedBy,
  connected_at: connection.connectedAt,
  last_used_at: connection.lastUsedAt ?? null,
});

const answerToCopy = (answer: string): Uint8Array =>
  page(
    'Almost connected',
    `<p>Send this answer of the provider from where you began, within ten minutes:</p>
<code class="token">${escaped(answer)}</code>
<p class="warn">If somebody else asked you to come here, close this page and tell them nothing.</p>`,
  );
