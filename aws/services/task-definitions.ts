import { hash } from 'node:crypto';
import {
  DeleteTaskDefinitionsCommand,
  DeregisterTaskDefinitionCommand,
  type ECSClient,
  paginateListTaskDefinitions,
  RegisterTaskDefinitionCommand,
  type RegisterTaskDefinitionCommandInput,
} from '@aws-sdk/client-ecs';
import { batchesOf } from '#core/base/batches.ts';
import { GATEWAY_PORT, type ServiceOrder } from '#core/ports/service-host.ts';
import { CONTAINER_NAME, PORT_NAME } from './addresses.ts';
import { logGroupOf } from './logs.ts';
import type { ServiceSettings } from './settings.ts';
import { ecsTags, orderTagsOf } from './tags.ts';

/** Limit of DeleteTaskDefinitions. */
const DELETE_BATCH = 10;
/** Volume -> writable path, where runner/Dockerfile has a volume. Everything else is read-only. */
const WRITABLE = { home: '/home/user', layer: '/layer', tmp: '/tmp' };
/** Between SIGTERM and SIGKILL. The runner gives the app 25 of them. */
const STOP_SECONDS = 30;
/** Of log lines that wait for CloudWatch. Beyond them lines are lost: a full log never stops an app. */
const LOG_BUFFER = '4m';

/** The task definitions of services, one family each. Each order has one of its own, because its token is in there. */
export class TaskDefinitions {
  readonly #ecs: ECSClient;
  readonly #settings: ServiceSettings;

  constructor(ecs: ECSClient, settings: ServiceSettings) {
    this.#ecs = ecs;
    this.#settings = settings;
  }

  /**
   * Hash of everything in a task definition but the order. A deployment of the stage that changes it, such as with another
   * image of the runner, has all services made anew: the repository keeps only some images, and a task that is
   * replaced pulls its own.
   */
  async form(): Promise<string> {
    const { subnets, security_group } = this.#settings;
    const body = await this.#bodyFor({ id: '', token: '' });
    return hash('sha256', JSON.stringify([body, subnets, security_group])).slice(0, 16);
  }

  /** Returns the ARN. */
  async register(order: ServiceOrder): Promise<string> {
    const tags = orderTagsOf(this.#settings.stage, await this.form(), order);
    const { taskDefinition } = await this.#ecs.send(
      new RegisterTaskDefinitionCommand({ ...(await this.#bodyFor(order)), tags: ecsTags(tags) }),
    );
    return taskDefinition!.taskDefinitionArn!;
  }

  /** Removes all of a service but one. Tasks and services that still use them go on. */
  async removeAllBut(kept: string | undefined, serviceId: string): Promise<void> {
    const active = await this.#list(serviceId, 'ACTIVE');
    for (const taskDefinition of active.filter((arn) => arn !== kept)) {
      await this.#ecs.send(new DeregisterTaskDefinitionCommand({ taskDefinition }));
    }
    const inactive = await this.#list(serviceId, 'INACTIVE');
    for (const taskDefinitions of batchesOf(inactive, DELETE_BATCH)) {
      await this.#ecs.send(new DeleteTaskDefinitionsCommand({ taskDefinitions }));
    }
  }

  async #list(serviceId: string, status: 'ACTIVE' | 'INACTIVE'): Promise<string[]> {
    const familyPrefix = this.#familyOf(serviceId);
    const arns: string[] = [];
    for await (const page of paginateListTaskDefinitions({ client: this.#ecs }, { familyPrefix, status })) {
      arns.push(...(page.taskDefinitionArns ?? []));
    }
    return arns;
  }

  #familyOf(serviceId: string): string {
    return this.#settings.family_prefix + serviceId;
  }

  async #bodyFor({ id, token }: Pick<ServiceOrder, 'id' | 'token'>): Promise<RegisterTaskDefinitionCommandInput> {
    const { image, execution_role, cpu, memory_mb, api_url } = this.#settings;
    return {
      family: this.#familyOf(id),
      requiresCompatibilities: ['FARGATE'],
      networkMode: 'awsvpc',
      cpu: String(cpu),
      memory: String(memory_mb),
      // As the functions: installed dependencies run on the architecture that they were installed on.
      runtimePlatform: { cpuArchitecture: 'ARM64', operatingSystemFamily: 'LINUX' },
      // There is no task role: Fargate would give its credentials to every program in the task.
      executionRoleArn: execution_role,
      volumes: Object.keys(WRITABLE).map((name) => ({ name })),
      containerDefinitions: [
        {
          name: CONTAINER_NAME,
          image,
          essential: true,
          // As the sandboxes' tasks (lib/stacks/compute-stack.ts): the image's user, and no init before the runner.
          user: '1000:1000',
          linuxParameters: { capabilities: { drop: ['ALL'] } },
          readonlyRootFilesystem: true,
          stopTimeout: STOP_SECONDS,
          portMappings: [{ name: PORT_NAME, containerPort: GATEWAY_PORT, protocol: 'tcp' }],
          mountPoints: Object.entries(WRITABLE).map(([sourceVolume, containerPath]) => ({
            sourceVolume,
            containerPath,
            readOnly: false,
          })),
          // DescribeTaskDefinition shows the token to operators of the account. It opens nothing but this one service.
          environment: [
            { name: 'PLATFORM_RUNNER_SERVICE', value: id },
            { name: 'PLATFORM_RUNNER_SERVICE_TOKEN', value: token },
            { name: 'PLATFORM_RUNNER_API_URL', value: api_url },
          ],
          logConfiguration: {
            logDriver: 'awslogs',
            options: {
              'awslogs-group': logGroupOf(this.#settings, id),
              'awslogs-region': await this.#ecs.config.region(),
              'awslogs-stream-prefix': 'task',
              mode: 'non-blocking',
              'max-buffer-size': LOG_BUFFER,
            },
          },
        },
      ],
    };
  }
}
