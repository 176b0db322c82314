import { createMcpToolServers } from '#adapters/mcp/tool-servers.ts';
import { LayeredModelTable } from '#core/models/model-table.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { AwsConfig } from './config.ts';
import {
  blobParts,
  type HostDeps,
  handOverParts,
  hostParts,
  installParts,
  type LogFields,
  mailParts,
  questionParts,
  sandboxParts,
  tableParts,
  taskPushParts,
  toolSignInParts,
  uploadFormParts,
  vaultParts,
} from './deps.ts';
import { LazyLlm } from './lazy-ports.ts';
import { awsModels } from './model-source.ts';

/**
 * Time after which a durable run leaves a function that holds a call, at the end of a turn: a tool takes two minutes at
 * most, and the function ends soon after the longest call.
 */
const LEAVE_CALL_MS = 150_000;

/**
 * Returns all {@link Deps}. Smaller functions use single parts of `deps.ts`, so that their bundles contain no model
 * providers.
 */
export function awsDeps(config: AwsConfig, fieldsOfRequest?: () => LogFields | undefined): Deps & HostDeps {
  const host = hostParts(config, fieldsOfRequest);
  const tables = tableParts(host);
  const blobs = blobParts(host);
  const vault = vaultParts({ ...host, ...tables });
  return {
    ...host,
    ...tables,
    ...blobs,
    ...uploadFormParts(host),
    ...vault,
    ...installParts(host),
    ...handOverParts(host, LEAVE_CALL_MS),
    ...mailParts(host),
    ...sandboxParts({ ...host, ...tables, ...blobs }),
    llm: new LazyLlm(async () => (await import('#adapters/llm/create-llm.ts')).createLlm(config, host.log)),
    toolServers: createMcpToolServers(host),
    ...toolSignInParts(host),
    ownServices: {
      async find(workspaceId, wanted) {
        const { ownServices } = await import('#core/services/own-services.ts');
        const services = ownServices({ ...host, ...tables }, ({ address }) =>
          address === null ? undefined : { url: address, exchanges: host.outbound },
        );
        return services.find(workspaceId, wanted);
      },
    },
    ...questionParts({ ...host, ...tables }),
    ...taskPushParts({ ...host, ...tables, ...blobs, ...vault }),
    modelTable: new LayeredModelTable({
      ...host,
      source: config.models === undefined ? undefined : awsModels(host.outbound, config.models),
    }),
    gatewayUrl: config.callUrl ?? config.baseUrl ?? '',
  };
}
