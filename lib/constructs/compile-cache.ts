import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CustomResource, Duration, Fn, Stack } from 'aws-cdk-lib';
import { type CfnFunction, Code, LayerVersion } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { functionNameOf, type Stage } from '../config.ts';
import { PlatformFunction } from './platform-function.ts';

const MAKER = 'compile-cache';
/** Lambda unpacks layers into `/opt`, which a function cannot write to. */
const FOLDER = '/opt/compile-cache';
/** A minute to compile and a minute to publish, the limits of `aws/compile-cache.ts`, and their answer. */
const LIMIT = Duration.minutes(3);
/** In a new account with a concurrency of ten, Lambda queues some of the calls, with pauses of up to five minutes. */
const QUEUE_LIMIT = Duration.minutes(15);

/**
 * Function that builds compile caches. V8 accepts only a cache of the same version, processor and flags, so a function
 * with the same runtime builds them at deployment. Its code contains the bundles of all functions.
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
    const empty = new LayerVersion(this, 'Empty', {
      layerVersionName: functionNameOf(stage, 'empty-layer'),
      description: 'Layer of functions whose compile cache could not be made',
      code: Code.fromAsset(emptyFolder()),
    });
    maker.lambda.addEnvironment('PLATFORM_EMPTY_LAYER', empty.layerVersionArn);
    maker.publishLayers();
  }
}

/** A layer must have at least one file. */
function emptyFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'empty-layer-'));
  writeFileSync(join(folder, 'none.txt'), 'No compile cache\n');
  return folder;
}

/**
 * Gives a function a layer with the compile cache of its bundle, which is rebuilt when the bundle changes. The maker is
 * in the API stack; other stacks come after it. If the cache does not match or could not be made, Node compiles as
 * usual.
 */
export function useCompileCache(fn: PlatformFunction, stage: Stage): CustomResource {
  const { lambda } = fn;
  const resource = lambda.node.defaultChild as CfnFunction;
  const cache = new CustomResource(fn, 'CompileCache', {
    resourceType: 'Custom::CompileCache',
    serviceToken: Fn.sub(
      `arn:\${AWS::Partition}:lambda:\${AWS::Region}:\${AWS::AccountId}:function:${functionNameOf(stage, MAKER)}`,
    ),
    serviceTimeout: QUEUE_LIMIT,
    properties: {
      Bundle: fn.node.id,
      LayerName: functionNameOf(stage, fn.node.id),
      Folder: FOLDER,
      // Identifies the content: changed code gets a new cache.
      Code: Stack.of(fn).resolve(resource.code).s3Key,
    },
  });
  // Not set with `addLayers`: the logical id of a function version would then depend on the CDK's list of runtimes.
  resource.layers = [cache.ref];
  lambda.addEnvironment('NODE_COMPILE_CACHE', FOLDER);
  lambda.addEnvironment('NODE_COMPILE_CACHE_PORTABLE', '1');
  return cache;
}
