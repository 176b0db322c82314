import {
  type GatewayVpcEndpoint,
  GatewayVpcEndpointAwsService,
  InterfaceVpcEndpointAwsService,
  type IVpc,
  Peer,
  Port,
  SecurityGroup,
  type SubnetSelection,
  SubnetType,
  type Vpc,
} from 'aws-cdk-lib/aws-ec2';
import { Construct } from 'constructs';
import { type FargateSettings, openPorts, type Stage } from '../config.ts';
import { taskSubnetMask } from '../limits.ts';
import { ClosedNetwork } from './closed-network.ts';
import { importedVpc, subnetsOf, tenantVpc } from './tenant-vpc.ts';

/** Port of every task. */
const TASK_PORT = 8080;

export interface SandboxNetworkProps {
  readonly stage: Stage;
  readonly settings: FargateSettings;
}

/** Subnet type of tasks for each kind of egress. */
const TASK_SUBNETS = {
  public: SubnetType.PUBLIC,
  nat: SubnetType.PRIVATE_WITH_EGRESS,
  endpoints: SubnetType.PRIVATE_ISOLATED,
} as const;
/** Interface endpoints for tasks without internet access, in addition to S3: the image and the log. */
const ENDPOINTS = {
  ecr: InterfaceVpcEndpointAwsService.ECR,
  docker: InterfaceVpcEndpointAwsService.ECR_DOCKER,
  logs: InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
};

/**
 * Network of the sandboxes. It contains nothing else, because security groups cannot deny addresses: programs must find
 * nothing here. By default it has no NAT: tasks have public addresses that accept no connection. The function that
 * calls them reaches only tasks, DynamoDB and S3. In the operator's own network only the security groups are ours.
 */
export class SandboxNetwork extends Construct {
  readonly vpc: IVpc;
  readonly taskSubnets: SubnetSelection;
  /** Subnets of the function that calls tasks. */
  readonly functionSubnets: SubnetSelection;
  readonly hasPublicAddresses: boolean;
  readonly taskGroup: SecurityGroup;
  readonly dispatchGroup: SecurityGroup;

  constructor(scope: Construct, id: string, { stage, settings }: SandboxNetworkProps) {
    super(scope, id);
    const { vpc: existing, egress } = settings;
    this.hasPublicAddresses = !existing && egress === 'public';
    if (existing) {
      this.vpc = importedVpc(this, existing.id);
      this.taskSubnets = subnetsOf(this, 'tasks', existing.taskSubnetIds);
      this.functionSubnets = subnetsOf(this, 'dispatch', existing.functionSubnetIds);
    } else {
      this.taskSubnets = { subnetGroupName: 'tasks' };
      this.functionSubnets = { subnetGroupName: 'dispatch' };
      this.vpc = this.#addVpc(stage, settings);
    }

    this.taskGroup = new SecurityGroup(this, 'tasks', {
      vpc: this.vpc,
      description: 'Sandboxes: in from the dispatcher only, out by HTTPS only',
      allowAllOutbound: false,
    });
    this.dispatchGroup = new SecurityGroup(this, 'dispatch', {
      vpc: this.vpc,
      description: 'The function that speaks to sandboxes',
      allowAllOutbound: false,
    });
    this.taskGroup.addIngressRule(this.dispatchGroup, Port.tcp(TASK_PORT), 'jobs');
    for (const { from, to } of openPorts([443, ...stage.egressPorts])) {
      const what = from === 443 && to === 443 ? 'HTTPS, the image and its log included' : 'targets of agents';
      this.taskGroup.addEgressRule(Peer.anyIpv4(), from === to ? Port.tcp(from) : Port.tcpRange(from, to), what);
    }
    this.dispatchGroup.addEgressRule(this.taskGroup, Port.tcp(TASK_PORT), 'jobs');
    // The function's subnets have routes only to these two services outside the network.
    this.dispatchGroup.addEgressRule(Peer.anyIpv4(), Port.tcp(443), 'DynamoDB and S3 by their endpoints');
    if (!existing && egress === 'endpoints') this.#addEndpoints(stage);
  }

  #addVpc(stage: Stage, { cidr, zones, egress, max }: FargateSettings): Vpc {
    const cidrMask = taskSubnetMask(max, zones?.length ?? 2);
    return tenantVpc(this, {
      stage,
      name: 'sandbox-network',
      cidr,
      zones,
      hasNat: egress === 'nat',
      subnetConfiguration: [
        { name: 'tasks', subnetType: TASK_SUBNETS[egress], cidrMask, ...(egress === 'public' && NO_ADDRESSES) },
        { name: 'dispatch', subnetType: SubnetType.PRIVATE_ISOLATED, cidrMask: 25 },
        ...(egress === 'nat' ? [{ name: 'nat', subnetType: SubnetType.PUBLIC, cidrMask: 26, ...NO_ADDRESSES }] : []),
      ],
      gatewayEndpoints: {
        s3: { service: GatewayVpcEndpointAwsService.S3 },
        dynamodb: { service: GatewayVpcEndpointAwsService.DYNAMODB, subnets: [this.functionSubnets] },
      },
    });
  }

  #addEndpoints(stage: Stage): void {
    const group = new SecurityGroup(this, 'endpoints', {
      vpc: this.vpc,
      description: 'Endpoints of AWS: in from sandboxes only',
      allowAllOutbound: false,
    });
    group.addIngressRule(this.taskGroup, Port.tcp(443), 'HTTPS');
    const endpoint = (name: keyof typeof ENDPOINTS) =>
      this.vpc.addInterfaceEndpoint(name, {
        service: ENDPOINTS[name],
        subnets: this.taskSubnets,
        securityGroups: [group],
        open: false,
      });
    new ClosedNetwork(this, 'closed', {
      stage,
      vpc: this.vpc,
      registry: [endpoint('ecr'), endpoint('docker')],
      logs: endpoint('logs'),
      s3: this.vpc.node.findChild('s3') as GatewayVpcEndpoint,
    });
  }
}

/** Public addresses are assigned only on request. */
const NO_ADDRESSES = { mapPublicIpOnLaunch: false };
