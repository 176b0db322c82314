import { join } from 'node:path';
import { AspectPriority, Aspects, Stage as CdkStage, type IAspect, Stack, Tags, Token } from 'aws-cdk-lib';
import type { SpecRestApi } from 'aws-cdk-lib/aws-apigateway';
import { CfnRole } from 'aws-cdk-lib/aws-iam';
import { Construct, type IConstruct } from 'constructs';
import { routes } from '#core/api/routes.ts';
import { type AgentPlatformProps, checkedProps, platformNameOf, type Stage } from './config.ts';
import { MORE_MICROVM_REGIONS, microvmRegionProblem } from './limits.ts';
import { ApiStack } from './stacks/api-stack.ts';
import { ComputeStack } from './stacks/compute-stack.ts';
import { DataStack } from './stacks/data-stack.ts';
import { MicrovmStack } from './stacks/microvm-stack.ts';
import { ObservabilityStack } from './stacks/observability-stack.ts';
import { SchedulesStack } from './stacks/schedules-stack.ts';
import { ServicesStack } from './stacks/services-stack.ts';
import { WebStack } from './stacks/web-stack.ts';

export type { AgentPlatformProps };

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

/** `dist` is beside this file in the package, and beside its folder in the repository. */
const DIST = join(import.meta.dirname, '../dist');

/**
 * The platform in a CDK app, as separate stacks, which CDK deploys in order. Its scope is an app, a stage, or a stack,
 * whose account and Region it then shares. `docs/cdk.md` describes the props.
 *
 * Throws one error that names every invalid prop.
 */
export class AgentPlatform extends Construct {
  readonly data: Stack;
  readonly schedules: Stack;
  readonly api: Stack;
  readonly observability: Stack;
  /** Present if the stage has sandboxes. */
  readonly compute?: Stack;
  /** Present if the stage has services. */
  readonly services?: Stack;
  /** Present with CloudFront. */
  readonly web?: Stack;
  /** For settings beyond the props, such as statements of its resource policy. */
  readonly restApi: SpecRestApi;

  constructor(scope: Construct, id: string, props: AgentPlatformProps, surroundings: Partial<BuildArtifacts> = {}) {
    super(scope, id);
    const stage = checkedProps(props);
    this.#checkRegion(stage);
    const { keepsData: terminationProtection } = stage;
    const built = {
      bundles: join(DIST, 'functions'),
      runnerContext: join(DIST, 'runner'),
      dashboard: join(DIST, 'dashboard'),
      docs: join(DIST, 'docs-site'),
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
    this.data = new DataStack(this, 'data', { ...inStack('data'), terminationProtection });
    this.schedules = new SchedulesStack(this, 'schedules', inStack('schedules'));
    const api = new ApiStack(this, 'api', { ...inStack('api'), routes });
    this.api = api;
    this.restApi = api.restApi;
    this.api.addStackDependency(this.data, 'functions read what the tables hold');
    this.api.addStackDependency(this.schedules, 'a function reads the queue');
    const { sandbox, services } = stage;
    if (sandbox.kind === 'fargate') {
      this.compute = new ComputeStack(this, 'compute', { ...inStack('compute'), settings: sandbox });
    } else if (sandbox.kind === 'microvm') {
      this.compute = new MicrovmStack(this, 'compute', { ...inStack('compute'), settings: sandbox });
    }
    this.compute?.addStackDependency(this.api, 'a release that is rolled back must not change them');
    if (services.kind !== 'off') {
      // Deleting the stack ends all its services.
      const own = { ...inStack('services'), settings: services, terminationProtection };
      this.services = new ServicesStack(this, 'services', own);
      this.services.addStackDependency(this.api, "instances ask the API, whose id the stack's export has");
    }
    if (stage.web.kind !== 'off') {
      this.web = new WebStack(this, 'web', { ...inStack('web'), settings: stage.web });
      this.web.addStackDependency(this.api, 'it imports the id of the API');
    }
    this.observability = new ObservabilityStack(this, 'observability', inStack('observability'));
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
