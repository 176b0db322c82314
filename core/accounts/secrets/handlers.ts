import type { Caller } from '#core/base/caller.ts';
import { isConnectionSecret } from '#core/base/connection-names.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Handlers } from '#core/http/route.ts';
import { isSettingsSecret } from '#core/models/compatible-providers.ts';
import { rotateSigningSecret } from '#core/outbound/signing.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { SecretListeners } from './listeners.ts';
import { refuseWhenFull } from './refuse-when-full.ts';
import type { secretRoutes } from './routes.ts';
import { type Secret, SecretStore } from './store.ts';

export const secretHandlers = (
  deps: Pick<Deps, 'main' | 'vault' | 'clock' | 'ids'>,
  listeners: SecretListeners,
): Handlers<typeof secretRoutes> => {
  const storeOf = (caller: Caller) => new SecretStore(deps, caller.workspace.id);

  async function put(caller: Caller, body: { name: string; value: string; description?: string | null }) {
    if (isSettingsSecret(body.name)) {
      throw new PlatformError('INVALID_INPUT', `name: ${body.name} is kept for the settings of a model provider.`, {
        hint: 'Set a provider up with PUT /workspaces/{id}/providers/{name}, or with: platform providers set.',
      });
    }
    if (isConnectionSecret(body.name)) {
      throw new PlatformError('INVALID_INPUT', `name: ${body.name} is kept for the access token of a connection.`, {
        hint: 'Connect with POST /workspaces/{id}/connections, or with: platform connect.',
      });
    }
    return storeOf(caller)
      .put({ ...body, userId: caller.userId })
      .catch(refuseWhenFull);
  }

  async function find(caller: Caller, nameOrId: string): Promise<Secret> {
    const secret = await storeOf(caller).find(nameOrId);
    if (secret === undefined) {
      throw new PlatformError(
        'NOT_FOUND',
        `The workspace "${caller.workspace.slug}" has no secret "${nameOrId.slice(0, 128)}".`,
      );
    }
    return secret;
  }

  const restarted = async (caller: Caller, name: string) =>
    (await listeners.secretChanged(caller.workspace.id, name)).map((service_name) => ({ service_name }));

  return {
    async listSecrets({ caller }) {
      return { status: 200, body: { secrets: await storeOf(caller).list() } };
    },

    async putSecret({ caller, body }) {
      const written = await put(caller, body);
      return { status: 200, body: { ...written, restarted_services: await restarted(caller, body.name) } };
    },

    async createSecret({ caller, body }) {
      if (await storeOf(caller).find(body.name)) {
        throw new PlatformError('CONFLICT', `The secret "${body.name}" already exists: replace it with PUT or PATCH.`);
      }
      const { secret } = await put(caller, body);
      return { status: 201, body: { secret } };
    },

    async updateSecret({ caller, params, body }) {
      const { name } = await find(caller, params.name);
      await put(caller, { name, ...body });
      return { status: 200, body: { updated: true, restarted_services: await restarted(caller, name) } };
    },

    async deleteSecret({ caller, params }) {
      const { name } = await find(caller, params.name);
      await storeOf(caller).remove(name);
      return { status: 200, body: { deleted: true } };
    },

    async rotateSigningSecret({ caller }) {
      const { secret, previousUntil } = await rotateSigningSecret(deps, caller.workspace.id);
      const previous_valid_until = previousUntil === null ? null : isoTime(previousUntil);
      return { status: 200, body: { signing_secret: secret, previous_valid_until } };
    },
  };
};
