import { CustomResource, Duration, Fn, Stack } from 'aws-cdk-lib';
import type { CfnFunction } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { functionNameOf, type Stage } from '../config.ts';
import { PlatformFunction } from './platform-function.ts';

const MAKER = 'compile-cache';
/** Lambda unpacks layers into `/opt`, which a function cannot write to. */
const FOLDER = '/opt/compile-cache';
/** A minute to compile, as `aws/compile-cache.ts` has it, and the time that Lambda takes for the layer. */
const LIMIT = Duration.minutes(3);

/**
 * The function that makes compile caches. V8 takes a cache of its very version, processor and flags only, so a function of the same
 * runtime makes them at deployment. Its code is the bundles of all functions.
 */
export class CompileCacheMaker extends Construct {
  constructor(scope: Construct, id: string, { stage, bundles }: { readonly stage: Stage; readonly bundles: string }) {
    super(scope, id);
    const maker = new PlatformFunction(this, MAKER, {
      stage,
      bundle: bundles,
      exclude: ['**/*.map'],
      handler: `${MAKER}/index.handler`,
      memoryMb: 1024,
      timeoutSeconds: LIMIT.toSeconds(),
      environment: {},
    });
    maker.publishLayers();
  }
}

/**
 * Gives a function a layer with the compile cache of its bundle, which is made anew when the bundle changes. The maker is in the stack of
 * the API; other stacks come after it. Where the cache does not fit, Node compiles as ever.
 */
export function useCompileCache(fn: PlatformFunction, stage: Stage): CustomResource {
  const { lambda } = fn;
  const resource = lambda.node.defaultChild as CfnFunction;
  const cache = new CustomResource(fn, 'CompileCache', {
    resourceType: 'Custom::CompileCache',
    serviceToken: Fn.sub(
      `arn:\${AWS::Partition}:lambda:\${AWS::Region}:\${AWS::AccountId}:function:${functionNameOf(stage, MAKER)}`,
    ),
    serviceTimeout: LIMIT,
    properties: {
      Bundle: fn.node.id,
      LayerName: functionNameOf(stage, fn.node.id),
      Folder: FOLDER,
      // Names the content: other code gets another cache.
      Code: Stack.of(fn).resolve(resource.code).s3Key,
    },
  });
  // Not by `addLayers`: what names a version of a function would then depend on the CDK's list of runtimes.
  resource.layers = [cache.ref];
  lambda.addEnvironment('NODE_COMPILE_CACHE', FOLDER);
  lambda.addEnvironment('NODE_COMPILE_CACHE_PORTABLE', '1');
  return cache;
}
