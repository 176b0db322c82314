/** Commands for a platform whose data is on this machine. The local host implements them. */
export interface OwnPlatform {
  status(): Promise<OwnStatus>;
  /** `file`: path of the archive. @default - a name with the time, in the current folder */
  backup(file: string | undefined, options: { readonly withKey: boolean }): Promise<OwnBackup>;
  /** `checkOnly` verifies the archive without changing anything. */
  restore(file: string, options: { readonly checkOnly: boolean }): Promise<OwnRestore>;
  upgrade(options: { readonly checkOnly: boolean }): Promise<OwnUpgrade>;
  checks(): Promise<readonly OwnCheck[]>;
  /** Returns the text of a systemd unit. */
  systemdUnit(): string;
  /** The program that runs the platform, and its arguments. */
  readonly program: readonly string[];
}

export interface OwnStatus {
  readonly running: boolean;
  readonly pid?: number;
  readonly url?: string;
  readonly started_at?: string;
  /** Version of the running platform, else of the installed one. */
  readonly version: string;
  readonly data_folder: string;
  /** `null` if there is no data yet. */
  readonly data_version: number | null;
  readonly sandbox?: OwnSandbox;
  readonly disk: { readonly free_bytes: number; readonly total_bytes: number; readonly problem?: string };
  readonly last_backup?: OwnBackup;
}

export interface OwnSandbox {
  readonly kind: string;
  readonly problem?: string;
  readonly limits_by?: string;
  readonly running: number;
  /** Number of runs waiting for a sandbox. */
  readonly waiting: number;
  readonly max: number;
}

export interface OwnBackup {
  readonly file: string;
  readonly created_at: string;
  readonly bytes: number;
  readonly files: number;
  readonly data_version: number;
  readonly has_secrets: boolean;
  readonly has_key: boolean;
}

export interface OwnRestore {
  readonly file: string;
  /** `null` if the archive was only verified. */
  readonly data_folder: string | null;
  readonly created_at: string;
  readonly platform: string;
  readonly data_version: number;
  readonly files: number;
  readonly bytes: number;
  readonly has_secrets: boolean;
  readonly has_key: boolean;
  /** Path of the encryption key of the secrets. */
  readonly key_file: string;
  /** Whether the encryption key exists, so that secrets can be read. */
  readonly key_found: boolean;
}

export interface OwnUpgrade {
  readonly data_folder: string;
  readonly platform: string;
  readonly from_version: number;
  readonly to_version: number;
  /** Problems that prevent the upgrade; empty if there are none. */
  readonly problems: readonly string[];
  readonly done: boolean;
  readonly backup?: OwnBackup;
}

export interface OwnCheck {
  readonly name: string;
  readonly ok: boolean;
  readonly detail: string;
  readonly hint?: string;
}

export interface OwnOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** @default - PLATFORM_DATA, else `.data` */
  readonly data?: string;
}

/** Exported by `local/own-platform.ts`. */
export type MakeOwnPlatform = (options: OwnOptions) => OwnPlatform;
