import { Stack, Validations } from 'aws-cdk-lib';
import type { IConstruct } from 'constructs';

/**
 * Acknowledges a wildcard in the resources of a policy, given exactly as in the policy: as text with tokens, or in
 * `Fn::Sub` notation. In a stack with an account and a Region, cdk-nag finds their values instead of tokens.
 */
export function acknowledgeWildcard(scope: IConstruct, arn: string, reason: string): void {
  const id = `AwsSolutions-IAM5[Resource::${flattened(Stack.of(scope).resolve(arn))}]`;
  Validations.of(scope).acknowledge({ id, reason });
}

/** Returns a value of a template as cdk-nag prints it: `<Name>` for a reference or a placeholder. */
function flattened(value: unknown): string {
  if (typeof value === 'string') return value.replaceAll('${', '<').replaceAll('}', '>');
  const [[intrinsic, argument] = []] = Object.entries(value as object);
  switch (intrinsic) {
    case 'Fn::Join':
      return argument[1].map(flattened).join(argument[0]);
    case 'Fn::GetAtt':
      return `<${argument.join('.')}>`;
    case 'Ref':
      return `<${argument}>`;
    default:
      throw new Error(`cdk-nag's notation of ${JSON.stringify(value)} is unknown`);
  }
}
