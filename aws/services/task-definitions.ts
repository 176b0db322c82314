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

/** Maximum batch size of DeleteTaskDefinitions. */
const DELETE_BATCH = 10;
/** Volume -> writable path, where runner/Dockerfile has a volume. Everything else is read-only. */
const WRITABLE = { home: '/home/user', layer: '/layer', tmp: '/tmp' };
/** Grace period between SIGTERM and SIGKILL. The runner gives the app 25 of these seconds. */
const STOP_SECONDS = 30;
/** Buffer for log lines on their way to CloudWatch. Beyond it lines are dropped: a full buffer never blocks an app. */
const LOG_BUFFER = '4m';

/**
 * Task definitions of services, one family per service. Each order has its own task definition, which contains its
 * token.
 */
export class TaskDefinitions {
  readonly #ecs: ECSClient;
  readonly #settings: ServiceSettings;

  constructor(ecs: ECSClient, settings: ServiceSettings) {
    this.#ecs = ecs;
    this.#settings = settings;
  }

  /**
   * Returns a hash of everything in a task definition except the order. A deployment of the stage that changes it, such
   * as a new runner image, renews all services: the repository keeps only some images, and a replacement task pulls the
   * image of its own definition.
   */
  async form(): Promise<string> {
    const { subnets, security_group } = this.#settings;
    const body = await this.#bodyFor({ id: '', token: '' });
    return hash('sha256', JSON.stringify([body, subnets, security_group])).slice(0, 16);
  }

  /** Registers the task definition of an order. Returns its ARN. */
  async register(order: ServiceOrder): Promise<string> {
    const tags = orderTagsOf(this.#settings.stage, await this.form(), order);
    const { taskDefinition } = await this.#ecs.send(
      new RegisterTaskDefinitionCommand({ ...(await this.#bodyFor(order)), tags: ecsTags(tags) }),
    );
    return taskDefinition!.taskDefinitionArn!;
  }

  /** Removes all task definitions of a service except one. Tasks and services that still use them continue. */
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
      // Same architecture as the functions: installed dependencies run only where they were installed.
      runtimePlatform: { cpuArchitecture: 'ARM64', operatingSystemFamily: 'LINUX' },
      // No task role: Fargate would expose its credentials to every program in the task.
      executionRoleArn: execution_role,
      volumes: Object.keys(WRITABLE).map((name) => ({ name })),
      containerDefinitions: [
        {
          name: CONTAINER_NAME,
          image,
          essential: true,
          // Same as the sandboxes' tasks (lib/stacks/compute-stack.ts): the image's user, and no init before the
          // runner.
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
          // DescribeTaskDefinition shows the token to operators of the account. It grants access only to this one
          // service.
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
