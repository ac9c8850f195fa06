// Tomcat over TLS for `squall probe`: a servlet reads each body to its end and responds with its size.
//
// Usage: java -cp JARS TomcatServer.java PORT CERTIFICATE KEY. Http2Protocol has its defaults, as an UpgradeProtocol element
// without attributes in server.xml has.

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Path;
import org.apache.catalina.Context;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;
import org.apache.coyote.http2.Http2Protocol;
import org.apache.tomcat.util.net.SSLHostConfig;
import org.apache.tomcat.util.net.SSLHostConfigCertificate;

public class TomcatServer {
    static class Drain extends HttpServlet {
        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
            long size = request.getInputStream().transferTo(OutputStream.nullOutputStream());
            response.getOutputStream().print(size + "\n");
        }
    }

    public static void main(String[] arguments) throws Exception {
        SSLHostConfig host = new SSLHostConfig();
        SSLHostConfigCertificate certificate =
                new SSLHostConfigCertificate(host, SSLHostConfigCertificate.Type.UNDEFINED);
        certificate.setCertificateFile(Path.of(arguments[1]).toAbsolutePath().toString());
        certificate.setCertificateKeyFile(Path.of(arguments[2]).toAbsolutePath().toString());
        host.addCertificate(certificate);

        Connector connector = new Connector();
        connector.setPort(Integer.parseInt(arguments[0]));
        connector.setProperty("address", "127.0.0.1");
        connector.setProperty("SSLEnabled", "true");
        connector.setScheme("https");
        connector.setSecure(true);
        connector.addSslHostConfig(host);
        connector.addUpgradeProtocol(new Http2Protocol());

        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(Path.of("").toAbsolutePath().toString());
        tomcat.setConnector(connector);
        Context context = tomcat.addContext("", null);
        Tomcat.addServlet(context, "drain", new Drain());
        context.addServletMappingDecoded("/", "drain");
        tomcat.start();
        tomcat.getServer().await();
    }
}
