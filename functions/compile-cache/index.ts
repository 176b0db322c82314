import { join } from 'node:path';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { parseCompileCacheOrder, publishCompileCache, removeCompileCache } from '#aws/compile-cache.ts';
import { customResource } from '../custom-resource.ts';
import { host } from '../host.ts';

const client = new LambdaClient();
/** Those of all functions are deployed with this one. */
const bundles = join(import.meta.dirname, '..');

const make = async ({ ResourceProperties }: { readonly ResourceProperties: unknown }) => {
  // biome-ignore lint/style/noProcessEnv: Node is started once more, as it was started here.
  const parts = { bundles, env: process.env, log: host.log, client };
  return { id: await publishCompileCache(parseCompileCacheOrder(ResourceProperties), parts) };
};

/** Makes the compile cache of each function with the Node that will run it, as a layer. */
export const handler = customResource({
  onCreate: make,
  onUpdate: make,
  onDelete: ({ PhysicalResourceId }) => removeCompileCache(PhysicalResourceId, client),
});
