import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.nio.file.FileVisitOption;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import software.amazon.awscdk.App;
import software.amazon.awscdk.ArnComponents;
import software.amazon.awscdk.CfnOutput;
import software.amazon.awscdk.Fn;
import software.amazon.awscdk.Stack;
import software.amazon.awscdk.services.sns.Topic;
import software.amazon.awscdk.services.sns.subscriptions.EmailSubscription;

/** A CDK app with a stack of its own, which deploys the platform from its cloud assembly. */
public final class PlatformApp {
    private static final Path ASSEMBLY = Path.of("assembly");

    public static void main(String[] args) throws IOException {
        App app = new App();
        Stack own = new Stack(app, "own");
        // The names of the platform's resources begin with platform-<name>.
        String topicArn =
                own.formatArn(ArnComponents.builder().service("sns").resource("platform-prod-alarms").build());
        Topic.fromTopicArn(own, "alarms", topicArn)
                .addSubscription(new EmailSubscription("operators@example.org"));
        CfnOutput.Builder.create(own, "ApiId").value(Fn.importValue("platform-prod-api-id")).build();

        include(Path.of(app.synth().getDirectory()), ASSEMBLY, "platform");
    }

    /** Adds a cloud assembly to that of the app, as the CDK adds those of its stages. */
    private static void include(Path outdir, Path assembly, String name) throws IOException {
        String directory = "assembly-" + name;
        List<Path> paths;
        try (var walked = Files.walk(assembly, FileVisitOption.FOLLOW_LINKS)) {
            paths = walked.toList();
        }
        for (Path path : paths) {
            Path target = outdir.resolve(directory).resolve(assembly.relativize(path).toString());
            if (Files.isDirectory(path)) {
                Files.createDirectories(target);
            } else {
                Files.copy(path, target, java.nio.file.StandardCopyOption.REPLACE_EXISTING);
            }
        }
        File manifest = outdir.resolve("manifest.json").toFile();
        ObjectMapper json = new ObjectMapper();
        ObjectNode content = (ObjectNode) json.readTree(manifest);
        content.withObject("/artifacts").putObject(directory)
                .put("type", "cdk:cloud-assembly")
                .putObject("properties")
                .put("directoryName", directory)
                .put("displayName", name);
        json.writeValue(manifest, content);
    }
}
