import { join } from 'node:path';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { parseCompileCacheOrder, publishCompileCache, removeCompileCache } from '#aws/compile-cache.ts';
import { customResource } from '../custom-resource.ts';
import { host } from '../host.ts';

const client = new LambdaClient();
/** Folder with the bundles of all functions, which are deployed with this one. */
const bundles = join(import.meta.dirname, '..');

const make = async ({ ResourceProperties }: { readonly ResourceProperties: unknown }) => {
  const order = parseCompileCacheOrder(ResourceProperties);
  return { id: await publishCompileCache(order, { bundles, log: host.log, client }) };
};

/** Builds the compile cache of each function as a layer, with the same Node that will run the function. */
export const handler = customResource({
  onCreate: make,
  onUpdate: make,
  onDelete: ({ PhysicalResourceId }) => removeCompileCache(PhysicalResourceId, client),
});
