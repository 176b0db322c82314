import { type Actions, arnOf, client, type Input, invalid, nameIn, pageOf, type Tag } from './wire.ts';

/** Revision of a task definition as sent to RegisterTaskDefinition. */
export interface FakeTaskDefinition {
  readonly taskDefinitionArn: string;
  readonly family: string;
  readonly revision: number;
  readonly status: 'ACTIVE' | 'INACTIVE' | 'DELETE_IN_PROGRESS';
  readonly containerDefinitions: readonly ContainerDefinition[];
  readonly cpu: string;
  readonly memory: string;
  readonly executionRoleArn?: string;
  readonly taskRoleArn?: string;
  readonly networkMode: 'awsvpc';
  readonly tags: readonly Tag[];
}

export interface ContainerDefinition {
  readonly name: string;
  readonly image: string;
  readonly environment?: readonly { readonly name: string; readonly value: string }[];
  readonly portMappings?: readonly {
    readonly name?: string;
    readonly containerPort: number;
    readonly hostPort?: number;
  }[];
  /** Seconds between SIGTERM and SIGKILL. */
  readonly stopTimeout?: number;
  readonly logConfiguration?: {
    readonly logDriver: string;
    readonly options?: Readonly<Record<string, string>>;
  };
}

export interface TaskDefinitions {
  readonly actions: Actions;
  /** All registered revisions, in any state. */
  readonly all: readonly FakeTaskDefinition[];
  /** Finds a revision by ARN or `family:revision`, or the newest active one by `family`. */
  find(name: string): FakeTaskDefinition | undefined;
  /** Returns an active revision. Throws ClientException if there is none. */
  active(name: string): FakeTaskDefinition;
}

/** Fargate's sizes: memory in MiB by CPU units. */
const SIZES: Readonly<Record<string, readonly [min: number, max: number, step: number]>> = {
  256: [512, 2048, 512],
  512: [1024, 4096, 1024],
  1024: [2048, 8192, 1024],
  2048: [4096, 16_384, 1024],
  4096: [8192, 30_720, 1024],
};

/** Keeps revisions of task definitions, which must be registered, deregistered and deleted in this order. */
export function startTaskDefinitions(): TaskDefinitions {
  const definitions = new Map<string, FakeTaskDefinition>();
  const newest = new Map<string, number>();
  const all = () => [...definitions.values()];
  const find = (name: string): FakeTaskDefinition | undefined => {
    const plain = nameIn(name);
    if (plain.includes(':')) return all().find(({ family, revision }) => `${family}:${revision}` === plain);
    return all().findLast(({ family, status }) => family === plain && status === 'ACTIVE');
  };
  const known = (name: string): FakeTaskDefinition => {
    const found = find(name);
    if (found === undefined) throw client('Unable to describe task definition.');
    return found;
  };
  const change = (arn: string, status: FakeTaskDefinition['status']): FakeTaskDefinition => {
    const changed = { ...definitions.get(arn)!, status };
    definitions.set(arn, changed);
    return changed;
  };

  return {
    get all() {
      return all();
    },
    find,
    active(name) {
      const found = find(name);
      if (found?.status !== 'ACTIVE') throw client('TaskDefinition is inactive, or there is none.');
      return found;
    },
    actions: {
      RegisterTaskDefinition({ tags = [], ...input }) {
        checkDefinition(input);
        const revision = (newest.get(input.family) ?? 0) + 1;
        newest.set(input.family, revision);
        const taskDefinitionArn = arnOf(`task-definition/${input.family}:${revision}`);
        const taskDefinition = { ...input, taskDefinitionArn, revision, status: 'ACTIVE' };
        definitions.set(taskDefinitionArn, { ...taskDefinition, tags });
        return { taskDefinition, tags };
      },
      DescribeTaskDefinition: ({ taskDefinition }) => ({ taskDefinition: known(taskDefinition) }),
      DeregisterTaskDefinition({ taskDefinition }) {
        if (!nameIn(taskDefinition).includes(':')) throw invalid('taskDefinition: family and revision');
        const found = known(taskDefinition);
        return {
          taskDefinition: found.status === 'ACTIVE' ? change(found.taskDefinitionArn, 'INACTIVE') : found,
        };
      },
      DeleteTaskDefinitions({ taskDefinitions }) {
        if (taskDefinitions.length < 1 || taskDefinitions.length > 10) throw invalid('taskDefinitions: 1 to 10');
        const found: (FakeTaskDefinition | string)[] = taskDefinitions.map((name: string) => find(name) ?? name);
        const isDeletable = (each: FakeTaskDefinition | string) =>
          typeof each !== 'string' && each.status !== 'ACTIVE' && taskDefinitions.length > 0;
        return {
          taskDefinitions: found
            .filter(isDeletable)
            .map((each) => change((each as FakeTaskDefinition).taskDefinitionArn, 'DELETE_IN_PROGRESS')),
          failures: found
            .filter((each) => !isDeletable(each))
            .map((each) => ({
              arn: typeof each === 'string' ? each : each.taskDefinitionArn,
              reason: 'The specified task definition is ACTIVE, or there is none: deregister it first.',
            })),
        };
      },
      ListTaskDefinitions({ familyPrefix, status = 'ACTIVE', sort = 'ASC', ...page }) {
        const wanted = all().filter(
          (each) => each.status === status && (familyPrefix === undefined || each.family === familyPrefix),
        );
        const sorted = wanted.toSorted((a, b) => (sort === 'ASC' ? 1 : -1) * (a.revision - b.revision));
        const [taskDefinitionArns, nextToken] = pageOf(
          sorted.map(({ taskDefinitionArn }) => taskDefinitionArn),
          page,
        );
        return { taskDefinitionArns, nextToken };
      },
      ListTaskDefinitionFamilies({ familyPrefix = '', status, ...page }) {
        const wanted = all().filter(
          (each) => each.family.startsWith(familyPrefix) && (status !== 'ACTIVE' || each.status === 'ACTIVE'),
        );
        const [families, nextToken] = pageOf([...new Set(wanted.map(({ family }) => family))], page);
        return { families, nextToken };
      },
    },
  };
}

/** Applies the checks of AWS's API reference for Fargate. */
function checkDefinition(input: Input): void {
  const { family, containerDefinitions, requiresCompatibilities = [], networkMode, cpu, memory } = input;
  if (!/^[A-Za-z0-9_-]{1,255}$/.test(family)) throw client('Family should only contain letters, digits, "-" and "_".');
  if (containerDefinitions.length === 0) throw client('Container list cannot be empty.');
  if (!requiresCompatibilities.includes('FARGATE')) throw client('requiresCompatibilities: FARGATE alone runs here');
  if (networkMode !== 'awsvpc') throw client("Fargate only supports network mode 'awsvpc'.");
  const [min, max, step] = SIZES[cpu] ?? [Number.NaN, 0, 1];
  if (!(Number(memory) >= min && Number(memory) <= max && Number(memory) % step === 0)) {
    throw client(`No Fargate configuration exists for given values: ${cpu} CPU, ${memory} memory.`);
  }
  if (JSON.stringify(input).length > 64 * 1024) throw client('Task definition is larger than 64 KiB.');
  for (const {
    name,
    image,
    environment = [],
    portMappings = [],
    stopTimeout = 30,
    logConfiguration,
  } of containerDefinitions) {
    if (!/^[A-Za-z0-9_-]{1,255}$/.test(name ?? '')) throw client('Container.name should not be null or empty.');
    if (!image) throw client('Container.image should not be null or empty.');
    if (stopTimeout > 120) throw client('stopTimeout: at most 120 seconds on Fargate');
    for (const { name: variable, value } of environment) {
      if (typeof variable !== 'string' || typeof value !== 'string') throw client('environment: names and values');
    }
    for (const { containerPort, hostPort = containerPort } of portMappings) {
      if (hostPort !== containerPort) throw client('portMappings: with awsvpc, both ports are the same');
    }
    if (logConfiguration === undefined) continue;
    const { logDriver, options = {} } = logConfiguration;
    if (logDriver !== 'awslogs') throw client(`logConfiguration: there is no driver ${logDriver} here`);
    if (!input.executionRoleArn)
      throw client('Fargate requires task definition to have execution role ARN to support log driver awslogs.');
    for (const option of ['awslogs-group', 'awslogs-region', 'awslogs-stream-prefix']) {
      if (!options[option]) throw client(`Log driver awslogs requires options: ${option}`);
    }
  }
}
