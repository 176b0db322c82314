import { join } from 'node:path';
import { CustomResource, Duration, Fn } from 'aws-cdk-lib';
import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import { DATA_VERSION } from '#core/base/data-versions.ts';
import { type Stage, tablePrefixOf } from '../config.ts';
import { PlatformFunction } from './platform-function.ts';

/**
 * Fails a deployment with a new version of the data (`core/base/data-versions.ts`) unless the tables have an adjacent
 * one, or if functions with access to the stage's place of secrets would not find all of them. Constructs that depend on it are deployed only afterwards.
 */
export class DataVersionCheck extends Construct {
  constructor(scope: Construct, id: string, { stage, bundles }: { readonly stage: Stage; readonly bundles: string }) {
    super(scope, id);
    const check = new PlatformFunction(this, 'data-version', {
      stage,
      bundle: join(bundles, 'data-version'),
      memoryMb: 256,
      timeoutSeconds: 30,
      environment: {},
    });
    check.useTable('main', { items: ['GetItem', 'PutItem'] });
    // An empty table has no version yet.
    const table = `arn:\${AWS::Partition}:dynamodb:\${AWS::Region}:\${AWS::AccountId}:table/${tablePrefixOf(stage)}main`;
    check.lambda.addToRolePolicy(new PolicyStatement({ actions: ['dynamodb:Scan'], resources: [Fn.sub(table)] }));
    const resource = new CustomResource(this, 'resource', {
      resourceType: 'Custom::DataVersion',
      serviceToken: check.lambda.functionArn,
      serviceTimeout: Duration.minutes(2),
      properties: { Version: String(DATA_VERSION), Secrets: stage.secrets },
    });
    resource.node.addDependency(check);
  }
}
