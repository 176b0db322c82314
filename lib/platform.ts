import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { AspectPriority, Aspects, Stage as CdkStage, type IAspect, Stack, Tags, Token } from 'aws-cdk-lib';
import type { SpecRestApi } from 'aws-cdk-lib/aws-apigateway';
import type { Distribution } from 'aws-cdk-lib/aws-cloudfront';
import type { TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import type { IVpc } from 'aws-cdk-lib/aws-ec2';
import type { CfnGateway } from 'aws-cdk-lib/aws-ecs';
import type { ApplicationLoadBalancer } from 'aws-cdk-lib/aws-elasticloadbalancingv2';
import { CfnRole, type PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import type { LogGroup } from 'aws-cdk-lib/aws-logs';
import type { IAliasRecordTarget } from 'aws-cdk-lib/aws-route53';
import { ApiGatewayDomain, CloudFrontTarget } from 'aws-cdk-lib/aws-route53-targets';
import type { Bucket } from 'aws-cdk-lib/aws-s3';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import { Construct, type IConstruct } from 'constructs';
import { routes } from '#core/api/routes.ts';
import { readArchive } from './archive.ts';
import { checkedProps, platformNameOf, type Stage } from './config.ts';
import { keyStatement } from './encryption.ts';
import { MORE_MICROVM_REGIONS, microvmRegionProblem } from './limits.ts';
import type { AgentPlatformProps, ApiFunctionName, BackgroundFunctionName } from './props.ts';
import { ApiStack } from './stacks/api-stack.ts';
import { ComputeStack } from './stacks/compute-stack.ts';
import { DataStack } from './stacks/data-stack.ts';
import { MicrovmStack } from './stacks/microvm-stack.ts';
import { ObservabilityStack } from './stacks/observability-stack.ts';
import { SchedulesStack } from './stacks/schedules-stack.ts';
import { ServicesStack } from './stacks/services-stack.ts';
import { WebStack } from './stacks/web-stack.ts';

export { CellRouter, type CellRouterProps } from './constructs/cell-router.ts';
export type * from './props.ts';

/** Build output that the stacks deploy, from this repository or the package. */
export interface BuildArtifacts {
  /** Folder with one bundle per function (`scripts/build-functions.ts`). */
  readonly bundles: string;
  /** Docker build context of the runner (`scripts/build-runner.ts`). */
  readonly runnerContext: string;
  /** Folder of the built dashboard (`scripts/build-dashboard.ts`): `index.html`, files beside it, and `assets/`. */
  readonly dashboard: string;
  /** Folder of the built documentation site (`scripts/build-docs-site.ts`). */
  readonly docs: string;
  /** Command that creates the first key. */
  readonly firstKey: string;
}

/** The API's functions, and those in the background that the stage has. */
export type PlatformFunctions = Readonly<
  Record<ApiFunctionName, LambdaFunction> & Partial<Record<BackgroundFunctionName, LambdaFunction>>
>;

/** `dist` is beside this file in the package, and beside its folder in the repository. */
const DIST = join(import.meta.dirname, '../dist');
/** Holds the functions and the documentation in the package. */
const ARCHIVE = join(DIST, 'deployed.zst');
let unpacked: string | undefined;

/** Returns the folder of the functions and the documentation. */
function unpackedDist(): string {
  if (existsSync(ARCHIVE)) unpacked ??= readArchive(ARCHIVE);
  return unpacked ?? DIST;
}

/**
 * The platform in a CDK app, as separate stacks, which CDK deploys in order. Its scope is an app, a stage, or a stack,
 * whose account and Region it then shares. `docs/cdk.md` describes the props.
 *
 * Throws one error that names every invalid prop.
 */
export class AgentPlatform extends Construct {
  /** Stack of tables, bucket and key. */
  readonly data: Stack;
  /** Stack of the timers of schedules. */
  readonly schedules: Stack;
  /** Stack of the API and its functions. */
  readonly api: Stack;
  /** Stack of dashboard and alarms. */
  readonly observability: Stack;
  /** Stack of sandboxes. Present unless `sandbox.kind` is `none`. */
  readonly compute?: Stack;
  /** Stack of always-on services. Present if the stage has them. */
  readonly services?: Stack;
  /** Stack of CloudFront. Present with `web`. */
  readonly web?: Stack;

  /** The API, for settings beyond the props, such as statements of its resource policy. */
  readonly restApi: SpecRestApi;
  /** Log of the API's requests, for subscription and metric filters. */
  readonly accessLog: LogGroup;
  /**
   * Functions by their names, for metrics, alarms and grants; `logGroup` is the log of each. A grant to a function applies
   * to all workspaces.
   */
  readonly functions: PlatformFunctions;
  /** Tables by their names, for metrics, backups and grants. Who reads one also needs a grant on `key`, if you named one. */
  readonly tables: Readonly<Record<'main' | 'runs' | 'counters', TableV2>>;
  /** Bucket of bundles, files and large values. */
  readonly bucket: Bucket;
  /** KMS key that encrypts data keys: the key named by `keyArn`, or else a key that the stage creates. */
  readonly key: IKey;
  /** Topic of the alarms. Present with `alarms`. */
  readonly alarmTopic?: ITopic;
  /** Target of an alias record for `domain`. Present with it. */
  readonly apiRecordTarget?: IAliasRecordTarget;
  /** CloudFront's distribution. Present with `web`. */
  readonly distribution?: Distribution;
  /** Target of an alias record for `web.domain`. Present with `web`. */
  readonly webRecordTarget?: IAliasRecordTarget;
  /** Network of sandboxes on Fargate, for peering and routes. Present with them. */
  readonly sandboxVpc?: IVpc;
  /** Network of services, for peering and routes. Present with `services`. */
  readonly servicesVpc?: IVpc;
  /** ECS gateway through which services are reached. Present with `services` without a domain. */
  readonly servicesGateway?: CfnGateway;
  /** Load balancer through which services are reached. Present with `services.domain`. */
  readonly servicesBalancer?: ApplicationLoadBalancer;

  /**
   * Returns the statement that the policy of a key for `keyArn` needs:
   * `key.addToResourcePolicy(AgentPlatform.keyStatement())`.
   */
  static keyStatement(): PolicyStatement {
    return keyStatement();
  }

  constructor(scope: Construct, id: string, props: AgentPlatformProps, surroundings: Partial<BuildArtifacts> = {}) {
    super(scope, id);
    const stage = checkedProps(props);
    this.#checkRegion(stage);
    const { keepsData: terminationProtection } = stage;
    const built = {
      bundles: surroundings.bundles ?? join(unpackedDist(), 'functions'),
      runnerContext: join(DIST, 'runner'),
      dashboard: join(DIST, 'dashboard'),
      docs: surroundings.docs ?? join(unpackedDist(), 'docs-site'),
      firstKey: `npx agent-platform-key ${platformNameOf(stage)}`,
      ...surroundings,
    };
    const inStack = (name: string) => ({
      stage,
      ...built,
      ...this.#environment(),
      stackName: `${platformNameOf(stage)}-${name}`,
      // CloudFormation counts spaces, and its limit is 1 MB.
      suppressTemplateIndentation: true,
    });
    const data = new DataStack(this, 'data', { ...inStack('data'), terminationProtection });
    this.data = data;
    this.tables = data.tables;
    this.bucket = data.blobs;
    this.key = data.dataKey;
    this.schedules = new SchedulesStack(this, 'schedules', inStack('schedules'));
    const api = new ApiStack(this, 'api', { ...inStack('api'), routes });
    this.api = api;
    this.restApi = api.restApi;
    this.accessLog = api.accessLog;
    this.apiRecordTarget = api.domain && new ApiGatewayDomain(api.domain);
    this.api.addStackDependency(this.data, 'functions read what the tables hold');
    this.api.addStackDependency(this.schedules, 'a function reads the queue');
    const { sandbox, services } = stage;
    if (sandbox.kind === 'fargate') {
      const compute = new ComputeStack(this, 'compute', { ...inStack('compute'), settings: sandbox });
      this.compute = compute;
      this.sandboxVpc = compute.vpc;
    } else if (sandbox.kind === 'microvm') {
      this.compute = new MicrovmStack(this, 'compute', { ...inStack('compute'), settings: sandbox });
    }
    this.compute?.addStackDependency(this.api, 'a release that is rolled back must not change them');
    let keeper: LambdaFunction | undefined;
    if (services.kind !== 'off') {
      // Deleting the stack ends all its services.
      const own = { ...inStack('services'), settings: services, terminationProtection };
      const stack = new ServicesStack(this, 'services', own);
      this.services = stack;
      this.servicesVpc = stack.vpc;
      if ('gateway' in stack.ingress) this.servicesGateway = stack.ingress.gateway;
      else this.servicesBalancer = stack.ingress.loadBalancer;
      keeper = stack.keeper;
      this.services.addStackDependency(this.api, "instances ask the API, whose id the stack's export has");
    }
    this.functions = { ...api.functions, ...(keeper && { 'service-keeper': keeper }) } as PlatformFunctions;
    if (stage.web.kind !== 'off') {
      const web = new WebStack(this, 'web', { ...inStack('web'), settings: stage.web });
      this.web = web;
      this.distribution = web.distribution;
      this.webRecordTarget = new CloudFrontTarget(web.distribution);
      this.web.addStackDependency(this.api, 'it imports the id of the API');
    }
    const observability = new ObservabilityStack(this, 'observability', inStack('observability'));
    this.observability = observability;
    this.alarmTopic = observability.topic;
    this.observability.addStackDependency(this.api, 'it reads the logs of its functions');
    for (const stack of [this.compute, this.services]) {
      if (stack) this.observability.addStackDependency(stack, "it reads its keeper's log");
    }
    Tags.of(this).add('platform:stage', stage.name);
    if (stage.rolePath !== '/')
      Aspects.of(this).add(new RolePath(stage.rolePath), { priority: AspectPriority.MUTATING });
  }

  /** Stacks without a Region are deployed to the one of the command line, which nothing here knows. */
  #checkRegion({ name, sandbox }: Stage): void {
    if (sandbox.kind !== 'microvm') return;
    const around = this.node.scopes.findLast((scope) => Stack.isStack(scope) || CdkStage.isStage(scope));
    const region = around?.region;
    if (region === undefined || Token.isUnresolved(region)) return;
    const problem = microvmRegionProblem(region, this.node.tryGetContext(MORE_MICROVM_REGIONS));
    if (problem !== undefined) throw new Error(`platform "${name}" is invalid:\n✖ ${problem}\n  → at sandbox.kind`);
  }

  /** CDK passes stacks the account and Region of their app or stage, but not those of an enclosing stack. */
  #environment() {
    const around = this.node.scopes.find(Stack.isStack);
    return around && { env: { account: around.account, region: around.region } };
  }
}

/** Also applies to the roles that CDK creates by itself. */
class RolePath implements IAspect {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  visit(node: IConstruct): void {
    if (node instanceof CfnRole) node.path = this.#path;
  }
}
