/** What the command line can do with a platform whose data is on this machine. The local host implements it. */
export interface OwnPlatform {
  status(): Promise<OwnStatus>;
  /** `file`: of the archive. @default - a name with the time, in the current folder */
  backup(file: string | undefined, options: { readonly withKey: boolean }): Promise<OwnBackup>;
  /** `checkOnly` reads the archive and changes nothing. */
  restore(file: string, options: { readonly checkOnly: boolean }): Promise<OwnRestore>;
  upgrade(options: { readonly checkOnly: boolean }): Promise<OwnUpgrade>;
  checks(): Promise<readonly OwnCheck[]>;
  /** Text of a unit of systemd. */
  systemdUnit(): string;
  /** The program that runs the platform, and its arguments. */
  readonly program: readonly string[];
}

export interface OwnStatus {
  readonly running: boolean;
  readonly pid?: number;
  readonly url?: string;
  readonly started_at?: string;
  /** Of the running platform, else of the installed one. */
  readonly version: string;
  readonly data_folder: string;
  /** `null`: there is no data yet. */
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
  /** Runs that wait for a place. */
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
  /** `null` if it was only checked. */
  readonly data_folder: string | null;
  readonly created_at: string;
  readonly platform: string;
  readonly data_version: number;
  readonly files: number;
  readonly bytes: number;
  readonly has_secrets: boolean;
  readonly has_key: boolean;
  /** Where the platform looks for the key of the secrets. */
  readonly key_file: string;
  /** Whether secrets can be read after it. */
  readonly key_found: boolean;
}

export interface OwnUpgrade {
  readonly data_folder: string;
  readonly platform: string;
  readonly from_version: number;
  readonly to_version: number;
  /** What keeps the upgrade from being made; empty if nothing does. */
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
