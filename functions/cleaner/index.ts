import { S3Client } from '@aws-sdk/client-s3';
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { emptyStage } from '#aws/release/empty-stage.ts';
import { customResource } from '../custom-resource.ts';
import { host } from '../host.ts';

const clients = { s3: new S3Client(), secrets: new SecretsManagerClient() };
const { bucket, secretPrefix } = host.config;

/** Deletes the stage's data together with the stack. */
export const handler = customResource({ onDelete: () => emptyStage(clients, { bucket, secretPrefix }) });
