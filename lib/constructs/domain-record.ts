import { ARecord, HostedZone, type IAliasRecordTarget, RecordTarget } from 'aws-cdk-lib/aws-route53';
import type { Construct } from 'constructs';

/** Creates an alias record of a host in a hosted zone that exists. */
export function addDomainRecord(
  scope: Construct,
  { name, hostedZoneId }: { readonly name: string; readonly hostedZoneId: string },
  target: IAliasRecordTarget,
): void {
  new ARecord(scope, 'record', {
    // The trailing dot makes the name complete, so the name of the zone is not needed.
    zone: HostedZone.fromHostedZoneAttributes(scope, 'zone', { hostedZoneId, zoneName: name }),
    recordName: `${name}.`,
    target: RecordTarget.fromAlias(target),
  });
}
