import { join } from 'node:path';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { type CompileCacheHost, compileCacheLayer, removeCompileCache } from '#aws/compile-cache.ts';
import { customResource } from '../custom-resource.ts';
import { host } from '../host.ts';

const { log, clock, config } = host;
const makerHost: CompileCacheHost = {
  // The bundles of all functions are deployed with this one.
  bundles: join(import.meta.dirname, '..'),
  log,
  clock,
  client: new LambdaClient(),
  emptyLayer: config.emptyLayer,
};

const make = async ({ ResourceProperties }: { readonly ResourceProperties: unknown }) => ({
  id: await compileCacheLayer(ResourceProperties, makerHost),
});

/** Builds the compile cache of each function as a layer, with the same Node that will run the function. */
export const handler = customResource({
  onCreate: make,
  onUpdate: make,
  onDelete: ({ PhysicalResourceId }) => removeCompileCache(PhysicalResourceId, makerHost),
});
