import { GatewayVpcEndpointAwsService, Peer, Port, SecurityGroup, SubnetType, type Vpc } from 'aws-cdk-lib/aws-ec2';
import { Construct } from 'constructs';
import type { Stage } from '../config.ts';
import { tenantVpc } from './tenant-vpc.ts';

/** Port of every task. */
const TASK_PORT = 8080;

export interface SandboxNetworkProps {
  readonly stage: Stage;
  /** Availability Zones. @default - two that AWS chooses */
  readonly zones?: readonly string[] | undefined;
}

/**
 * The network of the sandboxes. Nothing else is in it, because security groups cannot deny addresses: programs must find
 * nothing here. It has no NAT: tasks have public addresses that accept no connection, and the function that calls them
 * reaches only tasks, DynamoDB and S3.
 */
export class SandboxNetwork extends Construct {
  readonly vpc: Vpc;
  readonly taskGroup: SecurityGroup;
  readonly dispatchGroup: SecurityGroup;

  constructor(scope: Construct, id: string, { stage, zones }: SandboxNetworkProps) {
    super(scope, id);
    this.vpc = tenantVpc(this, {
      stage,
      name: 'sandbox-network',
      cidr: '10.64.0.0/20',
      zones,
      subnetConfiguration: [
        { name: 'tasks', subnetType: SubnetType.PUBLIC, cidrMask: 23, mapPublicIpOnLaunch: false },
        { name: 'dispatch', subnetType: SubnetType.PRIVATE_ISOLATED, cidrMask: 25 },
      ],
      gatewayEndpoints: {
        s3: { service: GatewayVpcEndpointAwsService.S3 },
        dynamodb: {
          service: GatewayVpcEndpointAwsService.DYNAMODB,
          subnets: [{ subnetType: SubnetType.PRIVATE_ISOLATED }],
        },
      },
    });

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
    this.taskGroup.addEgressRule(Peer.anyIpv4(), Port.tcp(443), 'HTTPS, the image and its log included');
    this.dispatchGroup.addEgressRule(this.taskGroup, Port.tcp(TASK_PORT), 'jobs');
    // Outside the network, its subnets have routes to these two services only.
    this.dispatchGroup.addEgressRule(Peer.anyIpv4(), Port.tcp(443), 'DynamoDB and S3 by their endpoints');
  }
}
