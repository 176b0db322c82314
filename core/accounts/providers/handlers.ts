import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Handlers } from '#core/http/route.ts';
import {
  type CompatibleSettings,
  compatibleUrl,
  readSettings,
  settingsSecretOf,
  writeSettings,
} from '#core/models/compatible-providers.ts';
import { nameOf, PRESETS, presetOf } from '#core/models/providers/openai-compatible.ts';
import { rowOf } from '#core/models/providers.ts';
import type { Deps } from '#core/ports/deps.ts';
import { COMPATIBLE, type CompatibleProvider, isCompatible } from '#core/ports/llm.ts';
import { MAX_SECRET_BYTES } from '#core/ports/vault.ts';
import { refuseWhenFull } from '../secrets/refuse-when-full.ts';
import { type Secret, SecretStore } from '../secrets/store.ts';
import type { providerRoutes } from './routes.ts';

/** Providers are secrets of their workspace, whose values are their settings. */
export const providerHandlers = (
  deps: Pick<Deps, 'main' | 'vault' | 'clock' | 'ids' | 'config'>,
): Handlers<typeof providerRoutes> => {
  const storeOf = ({ workspace }: Caller) => new SecretStore(deps, workspace.id);

  return {
    async listProviders({ caller }) {
      const secrets = (await storeOf(caller).list()).filter(isProvider);
      const names = secrets.map(({ name }) => name);
      const values = names.length === 0 ? {} : await deps.vault.read(caller.workspace.id, names);
      const providers = secrets.flatMap((secret) => {
        const stored = values[secret.name];
        return stored === undefined ? [] : [viewOf(secret, readSettings(stored))];
      });
      const presets = Object.entries(PRESETS).map(([name, { title, url = null }]) => ({ name, title, base_url: url }));
      return { status: 200, body: { providers, presets } };
    },

    async putProvider({ caller, params, body }) {
      const provider: CompatibleProvider = `${COMPATIBLE}:${params.provider}`;
      compatibleUrl(provider, body.base_url, deps.config.outboundHosts);
      const name = settingsSecretOf(params.provider);
      const value = writeSettings(body);
      if (Buffer.byteLength(value) > MAX_SECRET_BYTES) {
        throw new PlatformError(
          'DOCUMENT_TOO_LARGE',
          'The settings of a provider may have at most 8 KB: give fewer prices.',
        );
      }
      const description = `Model provider ${rowOf(provider).title}`;
      const { secret, created } = await storeOf(caller)
        .put({ name, value, description, userId: caller.userId })
        .catch(refuseWhenFull);
      return { status: 200, body: { provider: viewOf({ ...secret, llm_provider: provider }, body), created } };
    },

    async deleteProvider({ caller, params }) {
      const name = settingsSecretOf(params.provider);
      const store = storeOf(caller);
      if ((await store.find(name)) === undefined) {
        throw new PlatformError(
          'NOT_FOUND',
          `The workspace "${caller.workspace.slug}" has no provider "${params.provider}".`,
          { hint: 'GET /workspaces/{id}/providers, or platform providers list, has their names.' },
        );
      }
      await store.remove(name);
      return { status: 200, body: { deleted: true } };
    },
  };
};

interface ProviderSecret extends Secret {
  readonly llm_provider: CompatibleProvider;
}

const isProvider = (secret: Secret): secret is ProviderSecret => isCompatible(secret.llm_provider ?? '');

function viewOf({ llm_provider: provider, created_at, updated_at }: ProviderSecret, settings: CompatibleSettings) {
  const name = nameOf(provider);
  const { base_url = presetOf(name)?.url ?? null, api_key, default_model = null, prices = {} } = settings;
  const has_key = api_key !== undefined;
  const { title } = rowOf(provider);
  return { name, provider, title, base_url, has_key, default_model, prices, created_at, updated_at };
}
